"""Tables of a parameter server in numpy: what the native core is compared with, bit for bit."""
