"""What an application bundled by PyInstaller needs of memlite: its data files, the adapter among them, and vec0."""

from PyInstaller.utils.hooks import collect_data_files, collect_dynamic_libs

datas = collect_data_files("memlite", excludes=["__pyinstaller"])
binaries = collect_dynamic_libs("sqlite_vec", search_patterns=["vec0.*"])
hiddenimports = ["sqlite_vec"]  # it is found by its folder
# Extras, gigabytes of them: an application that wants one imports it itself.
excludedimports = ["sentence_transformers", "torch", "transformers", "mcp", "huggingface_hub", "gguf"]
