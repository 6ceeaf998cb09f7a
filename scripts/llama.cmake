# memlite calls llama.cpp through its C library alone. llama-cpp-python forces llama.cpp's "common"
# library (argument parsing, chat templates, downloads) on; nothing of it is loaded by Python, and it is
# a third of the compile. CMake includes this file right after llama.cpp's own project() line.
set(LLAMA_BUILD_COMMON OFF)
