"""Logs and machines (RES-11, RES-12, RES-27, RES-28)."""

import gzip
import hashlib

import numpy as np
import pytest

import fluxgate as fg

HEAD = "; UnixStartTime: 1000\n; MaxProcs: 8\n"
LINE = "{} {} -1 {} {} -1 -1 {} {} -1 1 7 1 1 1 1 -1 -1\n"


def line(job, submit=0, run=60, cores=4, request=100):
    return LINE.format(job, submit, run, cores, cores, request)


def test_a_log_is_read_plain_and_packed(tmp_path):
    text = HEAD + line(1) + line(2, submit=5) + line(3, run=-1)
    plain, packed = tmp_path / "a.swf", tmp_path / "a.swf.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, packed):
        log = fg.Log.read(path)
        assert len(log) == 2
        assert log.frame()["submit"].tolist() == [1000.0, 1005.0]
        assert log.left_out == {"never started in the log": 1}
        assert log.machine.core_count == 8
        assert log.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_rules_from_lines_to_jobs_are_keywords(tmp_path):
    path = tmp_path / "a.swf"
    path.write_text(HEAD + line(1, run=500, request=100))
    assert fg.Log.read(path).frame()["run"].tolist() == [500.0]
    assert fg.Log.read(path, overrun="raise").frame()["limit"].tolist() == [500.0]
    assert fg.Log.read(path, time="log").frame()["submit"].tolist() == [0.0]
    with pytest.raises(fg.OptionError, match="procs=cores|nodes"):
        fg.Log.read(path, width="most")
    with pytest.raises(fg.OptionError, match="accepted are swf, sacct"):
        fg.Log.read(path, format="pdf")


def test_res_27_a_bad_line_is_named(tmp_path):
    path = tmp_path / "bad.swf"
    path.write_text(HEAD + line(1) + "2 x -1 60 4 -1 -1 4 100 -1 1 7 1 1 1 1 -1 -1\n")
    with pytest.raises(fg.LogError) as caught:
        fg.Log.read(path)
    error = caught.value
    assert (error.file, error.line, error.field, error.found) == (str(path), 4, 2, "`x`")
    assert "accepted is a number" in str(error)
    log = fg.Log.read(path, skip_bad=True)
    assert (len(log), log.bad_lines[0]) == (1, 1)
    with pytest.raises(fg.LogError) as caught:
        fg.Log.read(tmp_path / "none.swf")
    assert caught.value.file == str(tmp_path / "none.swf")


def test_parts_load_and_estimates():
    log = fg.Log.lublin99(1000, cores=32, seed=3)
    assert len(log[100:300]) == 200
    assert log[100:300].frame()["job"][0] == 101
    with pytest.raises(fg.OptionError, match="accepted is 1"):
        log[::2]
    day = log.between("1970-01-02", "1970-01-03").frame()["submit"]
    assert day.min() >= 86_400 and day.max() < 2 * 86_400
    faster = log.load(2.0).frame()["submit"]
    first = log.frame()["submit"][0]
    assert np.allclose(faster - first, (log.frame()["submit"] - first) / 2)
    asked = log.estimates("perturbed:5", seed=9).frame()
    assert (asked["limit"] >= asked["run"]).all() and (asked["limit"] > asked["run"]).any()
    with pytest.raises(fg.OptionError, match="accepted is logged, exact or perturbed"):
        log.estimates("guessed")
    with pytest.raises(fg.OptionError, match="time: found `soon`"):
        log.between("soon")


def test_a_written_log_reads_back_the_same(log, file):
    back = fg.Log.read(file)
    for name in log.frame().columns:
        assert np.array_equal(log.frame()[name], back.frame()[name]), name


def test_res_28_frames_of_other_libraries_become_logs():
    columns = {"submit": [0, 10, 20], "run": [60.0, 30.0, 90.0], "cores": [1, 2, 4], "request": [100, None, 200]}
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")
    frames = [columns, pandas.DataFrame(columns), pyarrow.table(columns), fg.Table({"submit": np.array([0, 10, 20]),
        "run": np.array([60.0, 30.0, 90.0]), "cores": np.array([1, 2, 4]), "request": np.array([100, np.nan, 200])})]
    for frame in frames:
        jobs = fg.Log.from_frame(frame, cores=8).frame()
        assert jobs["limit"].tolist() == [100.0, 30.0, 200.0], "an unknown request is the run time"
        assert jobs["job"].tolist() == [1, 2, 3] and jobs["user"].tolist() == [0, 0, 0]


def test_res_28_streams_of_batches_parts_and_narrow_types():
    pyarrow = pytest.importorskip("pyarrow")
    schema = pyarrow.schema([("submit", "float32"), ("note", "string"), ("run", "uint16"), ("cores", "int8"),
                             ("request", "int64"), ("user", "bool")])
    rows = [[float(i) for i in range(20)], ["x"] * 20, list(range(1, 21)), [1 + i % 8 for i in range(20)],
            [None if i % 3 == 0 else 100 + i for i in range(20)], [i % 2 == 0 for i in range(20)]]
    whole = pyarrow.table(rows, schema=schema)
    parts = pyarrow.concat_tables([whole.slice(5, 7), whole.slice(12, 3), whole.slice(0, 0)])
    reader = pyarrow.RecordBatchReader.from_batches(schema, parts.to_batches())
    for frame in (parts, reader):
        jobs = fg.Log.from_frame(frame, cores=8).frame()
        assert jobs["submit"].tolist() == rows[0][5:15] and jobs["run"].tolist() == rows[2][5:15]
        assert jobs["cores"].tolist() == rows[3][5:15] and jobs["user"].tolist() == [float(u) for u in rows[5][5:15]]
        assert jobs["limit"].tolist() == [rows[2][i] if i % 3 == 0 else 100 + i for i in range(5, 15)]
    with pytest.raises(fg.LogError, match="column run: found values of the Arrow type `u`") as caught:
        fg.Log.from_frame(whole.select(["submit", "cores"]).append_column("run", [["x"] * 20]))
    assert caught.value.column == "run"
    with pytest.raises(fg.LogError, match="column run is missing; found are submit, cores"):
        fg.Log.from_frame(whole.select(["submit", "cores"]))
    with pytest.raises(fg.LogError, match="found int, accepted is an Arrow producer"):
        fg.Log.from_frame(5)


def test_res_28_wrong_values_are_named_with_column_and_row():
    good = {"submit": [0.0, 10.0], "run": [60.0, 30.0], "cores": [1, 2]}
    with pytest.raises(fg.LogError, match="column cores is missing") as caught:
        fg.Log.from_frame({"submit": [0.0], "run": [1.0]})
    assert caught.value.column == "cores"
    with pytest.raises(fg.LogError) as caught:
        fg.Log.from_frame({**good, "run": np.array([60.0, "long"], dtype=object)})
    assert (caught.value.column, caught.value.row) == ("run", 1)
    with pytest.raises(fg.LogError) as caught:
        fg.Log.from_frame({**good, "cores": [1, 2.5]})
    assert (caught.value.column, caught.value.row) == ("cores", 1)
    assert "2.5" in str(caught.value)
    with pytest.raises(fg.LogError, match="column run: found values of type"):
        fg.Log.from_frame({**good, "run": np.array(["a", "b"])})
    with pytest.raises(fg.LogError, match="not one value a row"):
        fg.Log.from_frame({**good, "run": [1.0]})


def test_res_28_pandas_without_pyarrow():
    pandas = pytest.importorskip("pandas")

    class Frame(pandas.DataFrame):
        def __arrow_c_stream__(self, requested_schema=None):
            raise ImportError("no pyarrow")

    frame = Frame({"submit": [0, 10], "run": [60.0, 30.0], "cores": pandas.array([1, 2], dtype="Int64"),
                   "request": pandas.array([None, 100], dtype="Int64")})
    jobs = fg.Log.from_frame(frame, cores=8).frame()
    assert jobs["limit"].tolist() == [60.0, 100.0] and jobs["cores"].tolist() == [1, 2]


def test_models_are_the_same_for_a_seed():
    assert np.array_equal(fg.Log.lublin99(100, seed=1).frame()["submit"], fg.Log.lublin99(100, seed=1).frame()["submit"])
    assert len(fg.Log.downey97(50, cores=16)) == 50
    with pytest.raises(fg.OptionError, match="cores: found 0"):
        fg.Log.lublin99(10, cores=0)


def test_res_11_machines_in_words(tmp_path):
    machine = fg.Machine("4x2+3gpu")
    assert (machine.node_count, machine.core_count, machine.gpu_count) == (4, 8, 12)
    assert fg.Machine.nodes(4, cores=2, gpus=3).gpu_count == 12
    assert fg.Machine.cores(256).node_count == 256
    path = tmp_path / "m.toml"
    path.write_text('[[resource.config]]\nhosts = "a[0-3]"\ncores = "0-3"\n')
    assert fg.Machine.read(path).core_count == 16 == fg.Machine(path).core_count
    with pytest.raises(fg.MachineError, match="accepted is CORES"):
        fg.Machine("4x0")
    with pytest.raises(fg.MachineError, match="neither MaxProcs nor MaxNodes"):
        fg.Log.from_frame({"submit": [0], "run": [1], "cores": [1]}).machine
