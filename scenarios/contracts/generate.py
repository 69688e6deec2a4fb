"""Makes the material of the scenario: `generate.py --seed N --out DIR`.

Only starts `build.py` of this folder as part of a package, so that its modules can import each
other wherever the folder lies.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[0] = str(here.parent)
    runpy.run_module(f"{here.name}.build", run_name="__main__")
