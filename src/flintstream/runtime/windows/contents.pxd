# Compiled as it is.
