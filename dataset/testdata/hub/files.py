"""Writes files.json: which files the datasets library takes for which split.

    pip install datasets==5.2.0 && python files.py
"""
import json
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import datasets  # noqa: E402
from datasets import data_files, load  # noqa: E402

CARD = {
    "one": "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path: [data/test-*, more/**]\n",
    "two": "configs:\n- config_name: a\n  data_files: a/*.parquet\n- config_name: b\n  default: true\n  data_files:\n  - b/0.parquet\n  - b/**/x-[0-9].parquet\n",
    "dir": "configs:\n- config_name: a\n  data_dir: a\n- config_name: b\n  data_dir: b\n",
}
TABLE = [
    ("", None, "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet data/odd-00000-of-00001.parquet other/test.parquet"),
    ("", None, "train.parquet test.parquet README.md .hidden/train.parquet __cache__/train.parquet"),
    ("", None, "train_0.parquet train_1.parquet dev.parquet eval-2.parquet constraint.parquet my train.parquet"),
    ("", None, "a/train/0.parquet a/train/1.parquet a/valid/0.parquet b.parquet"),
    ("", None, "a/b-train-x/0.parquet a/testing/0.parquet test.parquet"),
    ("", None, "0001.parquet x/0002.parquet restrained.parquet"),
    ("one", None, "data/train-1.parquet data/train-0.parquet data/test-0.parquet more/a/b.parquet more/c.parquet more/.no.parquet"),
    ("two", "a", "a/0.parquet a/1.parquet a/x/2.parquet b/0.parquet b/y/z/x-3.parquet b/x-4.parquet b/x-55.parquet"),
    ("two", None, "a/0.parquet a/1.parquet a/x/2.parquet b/0.parquet b/y/z/x-3.parquet b/x-4.parquet b/x-55.parquet"),
    ("dir", "b", "a/train.parquet b/train.parquet b/test.parquet train.parquet"),
]
out = []
for card, subset, names in TABLE:
    names = [n.replace("_SPACE_", " ") for n in names.replace("my train", "my_SPACE_train").split()]
    with tempfile.TemporaryDirectory() as root:
        for n in names:
            os.makedirs(os.path.dirname(os.path.join(root, n)), exist_ok=True)
            open(os.path.join(root, n), "w").close()
        if card:
            with open(os.path.join(root, "README.md"), "w") as f:
                f.write(f"---\n{CARD[card]}---\n")
        module = load.LocalDatasetModuleFactory(root).get_module()
        configs = module.builder_configs_parameters.builder_configs
        name = subset or module.builder_configs_parameters.default_config_name
        config = next(c for c in configs if name is None or c.name == name)
        if not isinstance(config.data_files, data_files.DataFilesDict):
            config._resolve_data_files(root, datasets.DownloadConfig())
        files = config.data_files
        splits = {str(k): [os.path.relpath(f, os.path.realpath(root)) for f in v if f.endswith(".parquet")] for k, v in files.items()}
        out.append({"card": CARD[card] if card else "", "subset": subset or "", "files": names, "splits": {k: v for k, v in splits.items() if v}})
with open("files.json", "w") as f:
    f.write("[\n" + ",\n".join(map(json.dumps, out)) + "\n]\n")
