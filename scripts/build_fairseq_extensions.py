"""Build the three C++ extensions of fairseq that this package uses, in its source tree: 10 seconds instead of minutes.

python scripts/build_fairseq_extensions.py FOLDER
"""

import os
import sys

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup

os.chdir(sys.argv[1])
sys.argv[1:] = ["build_ext", "--inplace", "-j4"]
extensions = [Extension("fairseq.libbleu", ["fairseq/clib/libbleu/libbleu.cpp", "fairseq/clib/libbleu/module.cpp"])]
extensions += [
    Extension(f"fairseq.data.{name}", [f"fairseq/data/{name}.pyx"], language="c++", include_dirs=[numpy.get_include()])
    for name in ("data_utils_fast", "token_block_utils_fast")
]
setup(name="fairseq-extensions", packages=[], ext_modules=cythonize(extensions, language_level=3))
