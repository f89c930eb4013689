"""The five codecs of a push, and bounded decompression."""
