"""The version of headrace, written once: the build reads it from here.

So `import headrace` needs no metadata of an installed package, which copies in other packages and frozen programs lack.
"""

VERSION = "0.1.0"
