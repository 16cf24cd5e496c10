"""Every task, by id, in the order of the notebooks."""

from specdec_labs.exercises import parse_set_id
from specdec_labs.grade.task import Task
from specdec_labs.grade.tasks.e01_residual import TASK as E01_RESIDUAL
from specdec_labs.grade.tasks.e02_bandwidth import MEMORY_BOUND, RIDGE_TASK
from specdec_labs.grade.tasks.e03_acceptance import ACCEPTANCE, VALID_LAW
from specdec_labs.grade.tasks.e03_chain import TASK as E03_CHAIN
from specdec_labs.grade.tasks.e03_museum import SOFTMAX_Q, THRESHOLD
from specdec_labs.grade.tasks.e04_laws import ENUMERATE, POWER
from specdec_labs.grade.tasks.e04_museum import BLOCK_RESIDUAL, LENGTH
from specdec_labs.grade.tasks.e05_best import BEST_GAMMA, BREAK_EVEN
from specdec_labs.grade.tasks.e05_expected import TASK as E05_EXPECTED
from specdec_labs.grade.tasks.e06_engine import ALPHA_TASK, EOS_TASK
from specdec_labs.grade.tasks.e07_siblings import DUPLICATES, REPLACEMENT, SIBLINGS
from specdec_labs.grade.tasks.e07_trees import MASK_TASK, PATHS_TASK, POSITIONS_TASK
from specdec_labs.grade.tasks.e08_kernel import EXCESS

TASKS: dict[str, Task] = {
    task.id: task
    for task in (
        E01_RESIDUAL,
        MEMORY_BOUND,
        RIDGE_TASK,
        ACCEPTANCE,
        VALID_LAW,
        E03_CHAIN,
        THRESHOLD,
        SOFTMAX_Q,
        ENUMERATE,
        POWER,
        LENGTH,
        BLOCK_RESIDUAL,
        E05_EXPECTED,
        BEST_GAMMA,
        BREAK_EVEN,
        ALPHA_TASK,
        EOS_TASK,
        PATHS_TASK,
        MASK_TASK,
        POSITIONS_TASK,
        SIBLINGS,
        DUPLICATES,
        REPLACEMENT,
        EXCESS,
    )
}


def tasks_of(task_id: str) -> list[Task]:
    """The task with this id ("E03.chain"), or every task of a set ("E03", "E03_rejection").

    Raises:
        ValueError: there is none; the message lists what there is.
    """
    named = task_id.strip() if isinstance(task_id, str) else ""
    if "." in named:
        found = [task for task in TASKS.values() if task.id.lower() == named.lower()]
    else:
        set_id = parse_set_id(task_id)
        found = [task for task in TASKS.values() if task.set_id == set_id]
    if not found:
        raise ValueError(f"task is {task_id!r}; there are: {', '.join(TASKS)}")
    return found


def task_asking_for(name: str) -> Task:
    """The task that asks for a name. ValueError when none does."""
    for task in TASKS.values():
        if any(ask.name == name for ask in task.asks):
            return task
    known = ", ".join(ask.name for task in TASKS.values() for ask in task.asks)
    raise ValueError(f"name is {name!r}; the tasks ask for: {known}")
