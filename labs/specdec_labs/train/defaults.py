"""The settings a command starts from. They were tried on two cores; a GPU takes larger batches."""

from specdec_labs.train.settings import TrainSettings

TINY_TARGET = TrainSettings(steps=700, batch=8, length=512, rate=3e-3, warmup=100, evaluate_every=100, save_every=50)
TINY_DRAFT = TrainSettings(steps=300, batch=4, length=512, rate=4e-3, warmup=30, evaluate_every=50, save_every=50)
MEDUSA = TrainSettings(
    steps=300, batch=8, length=400, rate=2e-3, warmup=20, weight_decay=0.01, evaluate_every=50, save_every=25
)
EAGLE = TrainSettings(
    steps=900, batch=8, length=400, rate=2e-3, warmup=40, weight_decay=0.01, evaluate_every=100, save_every=25
)
SMOLLM2_DRAFT = TrainSettings(
    steps=500, batch=8, length=400, rate=4e-3, warmup=40, weight_decay=0.05, evaluate_every=50, save_every=25
)
COMPARISON = TrainSettings(
    steps=120, batch=8, length=256, rate=4e-3, warmup=30, clip=10.0, evaluate_every=50, save_every=50
)
