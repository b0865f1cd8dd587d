"""`python -m sandbox.kernel`: says how the kernel is really started."""

import sys

if __name__ == "__main__":
    sys.exit(
        "This kernel is started by its provisioner, never by its command line: use jupyter_client 7 or later, and check"
        " that `jupyter kernelspec provisioners` lists rlm-sandbox."
    )
