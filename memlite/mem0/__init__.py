"""mem0's calls on a memlite file: `from memlite.mem0 import Memory` where `from mem0 import Memory` stood.

The parameters and the shapes that are returned are those of mem0 2.x's open source; docs/mem0.md has all of them and
says where memlite does more, or refuses. Errors are memlite's own (see `memlite.errors`): what mem0 refuses with a
ValueError is one here too. What is left aside is told by a `Mem0Warning`, never dropped in silence.
"""

from memlite.mem0.aio import AsyncMemory
from memlite.mem0.config import MemoryConfig
from memlite.mem0.memory import Memory, MemoryNotFoundError
from memlite.mem0.notices import Mem0Warning

__all__ = ["AsyncMemory", "Mem0Warning", "Memory", "MemoryConfig", "MemoryNotFoundError"]
