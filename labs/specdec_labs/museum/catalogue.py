"""The museum in its order: 21 mistakes, most of them reported by real projects."""

from specdec_labs.museum.batch import TIED_POSITIONS
from specdec_labs.museum.block import CONTIGUOUS_PIECE, NOT_SCALED_PIECE, TOKEN_RULE_PIECE
from specdec_labs.museum.counters import BONUS_COUNTED_TWICE
from specdec_labs.museum.draft_cache import DRAFT_CACHE_HOLE
from specdec_labs.museum.draft_law import DRAFT_TEMPERATURE, OTHER_DTYPE, PRUNED_VOCABULARY, SOFTMAX_Q
from specdec_labs.museum.keys import NOISE_BY_POSITION, REUSED_NOISE
from specdec_labs.museum.length import RETROSPECTIVE
from specdec_labs.museum.padding import PADDED_SLOTS
from specdec_labs.museum.piece import Piece
from specdec_labs.museum.recurrent import STATE_NOT_ROLLED_BACK
from specdec_labs.museum.siblings import DUPLICATE_SIBLINGS, REPLACEMENT_MIX_UP
from specdec_labs.museum.stopping import EOS_INSIDE
from specdec_labs.museum.verification import ACCEPT_AT_EQUALITY, ARGMAX_VERIFY, LOSSY_THRESHOLD

MUSEUM: dict[str, Piece] = {
    piece.name: piece
    for piece in (
        SOFTMAX_Q,
        OTHER_DTYPE,
        REUSED_NOISE,
        DRAFT_TEMPERATURE,
        ARGMAX_VERIFY,
        TOKEN_RULE_PIECE,
        CONTIGUOUS_PIECE,
        NOT_SCALED_PIECE,
        RETROSPECTIVE,
        REPLACEMENT_MIX_UP,
        DUPLICATE_SIBLINGS,
        PADDED_SLOTS,
        ACCEPT_AT_EQUALITY,
        NOISE_BY_POSITION,
        DRAFT_CACHE_HOLE,
        TIED_POSITIONS,
        STATE_NOT_ROLLED_BACK,
        EOS_INSIDE,
        PRUNED_VOCABULARY,
        LOSSY_THRESHOLD,
        BONUS_COUNTED_TWICE,
    )
}
