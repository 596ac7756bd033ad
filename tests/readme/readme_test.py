#!/usr/bin/env python3
"""The README's example is models/readme_example.cc to the letter (but for that file's first comment), so that what a
newcomer copies is what the build compiles."""

import re
import sys

readme, source = (open(path, encoding="utf-8").read() for path in sys.argv[1:3])
example = re.search(r"```cpp\n(.*?)```", readme, re.S).group(1)
compiled = source.split("\n", 1)[1]
if example.strip() != compiled.strip():
    sys.exit("README.md's example and models/readme_example.cc differ: copy one over the other")
