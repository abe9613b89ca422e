"""What a condition may be at most. Each limit is an error that names it, never a slow worker."""

from __future__ import annotations

from typing import Final

from pastforward.columns import dewey

# Long enough for an IN list of the size below; short enough that checking one condition stays in milliseconds.
MAX_TEXT_LENGTH: Final = 65_536

# Parentheses and NOTs within each other. The parser recurses tens of frames for each, and Python allows 1,000 in all.
MAX_DEPTH: Final = 24

# Disjuncts after normalisation: each one is an entry of its own in the index.
MAX_DISJUNCTS: Final = 256

# Predicates as written. The parser needs some 40 us for each.
MAX_WRITTEN_PREDICATES: Final = 1_024

# Constants as written, where a list of strings or of numbers counts as one. Other lists are as costly as predicates.
MAX_WRITTEN_CONSTANTS: Final = 4_096

# Predicates over all disjuncts after normalisation: 16 in each of the most disjuncts.
MAX_PREDICATES: Final = 4_096

# Values of one IN list.
MAX_MEMBERS: Final = 10_000

# Characters of a LIKE pattern or a regular expression.
MAX_PATTERN_LENGTH: Final = 1_024

# Instructions that RE2 makes of one expression: 1,024 characters of any script take 3,080. A counted repetition takes as many for each
# time, and where RE2 finds no deterministic automaton each byte of a text may cost that much: `a.{900}z` on a megabyte takes seconds.
MAX_REGEX_INSTRUCTIONS: Final = 4_000

# RE2's budget for one compiled expression. Counted repetitions beyond it are refused.
MAX_REGEX_BYTES: Final = 1 << 20

# UTF-8 bytes of an attribute's name: a length fits one byte.
MAX_NAME_BYTES: Final = 255

# Components of a Dewey path, in conditions, topics and values alike: a quad tree of the world has cells of four metres at depth 24.
MAX_PATH_DEPTH: Final = dewey.MAX_DEPTH

# Degrees of a point and of a circle's centre, in conditions and values alike. Boxes may lie in any plane.
MAX_LON: Final = 180.0
MAX_LAT: Final = 90.0

# Shapes (texts without their constants) that are remembered: more than the applications of a cluster write.
MAX_SHAPES: Final = 4_096

# Predicates of all of them together, as written and after normalisation. Each takes about a kilobyte: 64 MB at worst.
MAX_SHAPES_WEIGHT: Final = 65_536
