// CMake wants one source of its own for a shared library made of whole archives.
