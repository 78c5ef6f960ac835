"""The package itself: import, types, stubs, extras, pages (RES-21 to RES-23, RES-32, RES-35)."""

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import fluxgate as fg
from fluxgate import _fluxgate

HERE = Path(fg.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


def python(program, **more):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, **more)


def test_res_22_nothing_but_numpy_is_imported():
    wanted = "pandas", "polars", "matplotlib", "tqdm", "torch", "pyarrow", "optuna"
    done = python(f"import sys, fluxgate; print([name for name in {wanted} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_res_22_without_an_extra_the_error_names_it(monkeypatch):
    result = fg.replay(fg.Log.lublin99(20, cores=8), "easy")
    for name in ("matplotlib", "matplotlib.figure", "optuna", "pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(fg.MissingExtra, match=r"matplotlib is not installed: pip install 'fluxgate\[plot\]'") as caught:
        result.plot.ecdf()
    assert caught.value.extra == "plot" and isinstance(caught.value, ImportError)
    with pytest.raises(fg.MissingExtra, match=r"fluxgate\[all\]"):
        result.summary().to_pandas()
    with pytest.raises(fg.MissingExtra, match=r"optuna is not installed: pip install 'fluxgate\[tune\]'"):
        fg.Objective(fg.Log.lublin99(20, cores=8), "hybrid", {"depth": [1, 2]})


def stub():
    return ast.parse((HERE / "_fluxgate.pyi").read_text())


def test_res_23_the_stub_has_what_the_module_has():
    def public(names):
        return {name for name in names if not name.startswith("_") or name in ("__version__",)}

    described = {node.name: node for node in stub().body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    there = {name for name in public(vars(_fluxgate)) if name != "__version__"}
    # An iterator has no name in the module.
    assert set(described) - {"Candidates"} == there
    for name, node in described.items():
        if isinstance(node, ast.FunctionDef):
            continue
        known = getattr(_fluxgate, name, None)
        if known is None:
            continue
        members = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        assert public(members) == public(vars(known)), name


def test_res_23_the_stub_has_the_parameters_of_the_module():
    def parameters(arguments):
        return [argument.arg for argument in arguments.posonlyargs + arguments.args + arguments.kwonlyargs]

    for node in stub().body:
        if isinstance(node, ast.FunctionDef):
            found = list(inspect.signature(getattr(_fluxgate, node.name)).parameters)
            assert parameters(node.args) == found, node.name
        elif isinstance(node, ast.ClassDef) and hasattr(_fluxgate, node.name):
            for each in node.body:
                decorated = [ast.unparse(decorator) for decorator in getattr(each, "decorator_list", [])]
                if not isinstance(each, ast.FunctionDef) or "property" in decorated or each.name.startswith("__"):
                    continue
                found = list(inspect.signature(getattr(getattr(_fluxgate, node.name), each.name)).parameters)
                assert parameters(each.args) == found, f"{node.name}.{each.name}"


def examples(folder):
    """Files with the blocks of the pages."""
    made = {"example.py": "python.md", "training.py": "training.md"}
    for name, page in made.items():
        (folder / name).write_text("\n".join(code for _, code in code_blocks(ROOT / "docs" / page)))
    return [folder / name for name in made]


def test_res_23_the_package_is_typed(tmp_path):
    pytest.importorskip("mypy")
    assert (HERE / "py.typed").exists()
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\n[mypy-pandas.*,optuna.*,polars.*,tqdm.*,matplotlib.*]\nignore_missing_imports = True\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", settings, "--cache-dir", tmp_path / "cache", HERE, *examples(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_res_23_pyright_has_nothing_to_say(tmp_path):
    pytest.importorskip("pyright")
    (tmp_path / "fluxgate").symlink_to(HERE)
    files = ["fluxgate", *(file.name for file in examples(tmp_path))]
    missing = {"reportMissingImports": "none", "reportMissingModuleSource": "none"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"include": files, "pythonVersion": "3.10", **missing}))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", tmp_path],
        capture_output=True, text=True, cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def code_blocks(page):
    """The Python blocks of a page, each with its line."""
    blocks, begun, lines = [], None, []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if begun is None and line.strip() == "```python":
            begun, lines = number + 1, []
        elif begun is not None and line.strip() == "```":
            blocks.append((begun, "\n".join(lines) + "\n"))
            begun = None
        elif begun is not None:
            lines.append(line)
    return blocks


@pytest.mark.parametrize("page, least", [("python.md", 6), ("training.md", 1)])
def test_res_35_the_blocks_of_the_page_run(page, least, tmp_path, monkeypatch):
    page = ROOT / "docs" / page
    if not page.exists():
        pytest.fail(f"{page} is not there")
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    fg.Log.lublin99(1000, cores=64, seed=7).write(tmp_path / "log.swf")
    names = {"__name__": "page"}
    blocks = code_blocks(page)
    assert len(blocks) >= least
    for line, code in blocks:
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), names)


def test_res_35_pages_have_a_section_for_each_task():
    """Load, replay, compare, write in Python, train, export, benchmark."""
    headings = {
        line[3:].strip()
        for page in ("python.md", "training.md", "research.md", "benchmarks.md")
        for line in (ROOT / "docs" / page).read_text().splitlines()
        if line.startswith("## ")
    }
    tasks = "Load", "Replay", "Compare", "Write a policy in Python", "Train", "From a network to a component"
    assert set(tasks) <= headings, headings
    text = (ROOT / "docs/python.md").read_text()
    assert "fg.export(" in text and "fluxgate bench run" in (ROOT / "docs/research.md").read_text()


def test_res_35_the_notebooks_run(tmp_path, monkeypatch):
    import json

    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    notebooks = sorted((ROOT / "python/notebooks").glob("*.ipynb"))
    assert {"policies", "search", "semantics", "training"} <= {notebook.stem for notebook in notebooks}
    for notebook in notebooks:
        names = {"__name__": "notebook"}
        for number, cell in enumerate(json.loads(notebook.read_text())["cells"]):
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)


def test_res_32_plots_are_figures():
    figures = pytest.importorskip("matplotlib.figure")
    log = fg.Log.lublin99(500, cores=32, seed=1).load(3.0)
    result = fg.replay(log, ["easy", "sjf"], timeline=True)
    plots = [result.plot.ecdf("wait"), result.plot.ecdf("bsld", ["sjf"]), result.plot.queue(), result.plot.used(["easy"]),
             result.plot.gantt("easy"), result.plot.gantt("sjf", start=0.5, days=1.0)]
    for plot in plots:
        assert isinstance(plot, figures.Figure)
        plot.canvas.draw()
    boxes = plots[4].axes[0].collections[0].get_paths()
    assert len(boxes) >= len(log), "each job has a box or more"
    lines = plots[0].axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["easy", "sjf"]
    assert lines[0].get_ydata()[-1] == 1.0
    own = figures.Figure().add_subplot()
    assert result.plot.queue(axes=own) is own.figure
    with pytest.raises(fg.OptionError, match="timeline=True"):
        fg.replay(log, "easy").plot.queue()


def test_res_21_the_version_is_that_of_the_workspace():
    manifest = (ROOT / "Cargo.toml").read_text()
    assert f'version = "{fg.__version__}"' in manifest
    assert (HERE / "policies").is_dir() or os.environ.get("FLUXGATE_POLICIES")
