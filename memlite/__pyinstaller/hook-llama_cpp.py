"""llama.cpp's libraries, which llama-cpp-python opens by their path, and not the transformers it does without."""

from PyInstaller.utils.hooks import collect_dynamic_libs

binaries = collect_dynamic_libs("llama_cpp")
excludedimports = ["transformers", "torch", "huggingface_hub", "PIL"]
