"""Files at addresses are read and written as files are: against an S3 server on this machine, and in memory."""

import itertools
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import fsspec
import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

import pliant
from pliant.bulk.files import fingerprint
from pliant.bulk.rows import flagged_in, outcome_of, write_csv, write_flagged
from pliant.cli.exits import ERROR
from pliant.data import addresses
from pliant.data.addresses import fetched, is_file, is_folder, join, names_in, opened, written
from pliant.fitting.status import Status
from pliant.records import FitRecord, write_records
from pliant.table import read_fits, read_head, rows_of, table_writer, write_table

pytest.importorskip("s3fs")
pytest.importorskip("moto")

_numbers = itertools.count()

SMALL = ("--size", 30, "--shape-modes", "2,4", "--detector", "none", "--no-confidence")


class Slowly(LocalFileSystem):
    """Folders of this machine under another protocol: a file is there while it is written."""

    protocol = "slowly"

    @classmethod
    def _strip_protocol(cls, path):
        return LocalFileSystem._strip_protocol(path.replace("slowly://", "file://"))


@pytest.fixture(scope="module")
def server():
    """The address of an S3 server, which the environment names as it would name any other."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(name, "nowhere")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
            patch.delenv(name, raising=False)
        _forget()
        yield endpoint
        server.stop()
        _forget()


def _forget():
    """Connections know credentials and servers."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.fixture(scope="module")
def store(server):
    """The file system of the store as somebody else sees it, with one bucket."""
    system = fsspec.filesystem("s3", use_listings_cache=False)
    system.mkdir("bucket")
    return system


@pytest.fixture(params=["s3://bucket/{}", "memory://{}", "slowly://{folder}/{}", "{folder}/{}"])
def place(request, store, tmp_path):
    """A folder of each kind that does not exist yet."""
    fsspec.register_implementation("slowly", Slowly, clobber=True)
    name = f"run-{next(_numbers)}"
    yield addresses.as_source(request.param.format(name, folder=tmp_path))
    fsspec.filesystem("memory").store.clear()


def write(target, content=b"x"):
    with written(target) as partial:
        partial.write_bytes(content)


def read(source):
    with opened(source) as file:
        return file.read()


class TestEveryPlace:
    def test_what_is_written_is_read(self, place):
        addresses.make_folder(place)
        for content in (b"one", b"longer than that", b""):
            write(join(place, "a"), content)
            assert read(join(place, "a")) == content
            assert is_file(join(place, "a"))
            assert addresses.size_in_bytes(join(place, "a")) == len(content)
        assert not is_file(place)
        assert is_folder(place)
        assert not is_folder(join(place, "a"))

    def test_a_folder_that_is_not_there(self, place):
        assert names_in(place) == []
        assert not is_folder(place)
        addresses.remove_folder(place)
        addresses.remove(join(place, "a"))
        with pytest.raises(FileNotFoundError):
            read(join(place, "a"))

    def test_files_are_removed_one_by_one_or_all_together(self, place):
        addresses.make_folder(join(place, "sub"))
        for name in ("a", "b", "sub/c"):
            write(join(place, name))
        assert names_in(place) == ["a", "b"]
        addresses.remove(join(place, "a"))
        assert names_in(place) == ["b"]
        addresses.remove_folder(place)
        assert names_in(place) == names_in(join(place, "sub")) == []

    def test_an_error_leaves_what_was_there(self, place):
        addresses.make_folder(place)
        write(join(place, "a"), b"old")

        def fail():
            with written(join(place, "a")) as partial:
                partial.write_bytes(b"half")
                raise RuntimeError("stopped")

        with pytest.raises(RuntimeError, match="stopped"):
            fail()
        assert read(join(place, "a")) == b"old"
        assert names_in(place) == ["a"]

    @pytest.mark.parametrize(
        "name", ["a b.txt", "ü名.txt", "a#b", "a%20b", "a%b", "a?b", "a+b", "a[1]", "~a", "a&b=c"]
    )
    def test_names_are_kept(self, place, name):
        addresses.make_folder(place)
        write(join(place, name), name.encode())
        assert names_in(place) == [name]
        assert is_file(join(place, name))
        (found,) = addresses.files_in(place)
        assert addresses.plain_name(found) == name
        assert read(found) == name.encode()

    def test_tables(self, place):
        addresses.make_folder(place)
        table = join(place, "fits.parquet")
        rows = [_row("ä.png", 0, 0.9), _row("b.png", 0, 0.1), _row("b.png", 1, 0.5)]
        write_table(table, rows, {"run": 1}, ("nose", "chin"))
        assert read_head(table) == {"run": 1}
        assert [row["confidence"] for row in rows_of(table, ["confidence"])] == [0.9, 0.1, 0.5]
        assert outcome_of(table).images == 2
        assert [(row["confidence"], row["image"]) for row in flagged_in(table, 0.4)] == [(0.1, "b.png")]
        write_csv(join(place, "fits.csv"), table, 2)
        write_flagged(join(place, "flagged.csv"), table, 0.4)
        assert len(read(join(place, "fits.csv")).splitlines()) == 4
        assert read(join(place, "flagged.csv")).splitlines()[1] == b"b.png,0,0.1000,converged,"
        for source in (place, table, str(place)):
            assert read_fits(source)["points"].shape == (3, 2, 2)

    def test_tables_that_are_none(self, place):
        addresses.make_folder(place)
        with pytest.raises(ValueError, match="there is no such table of fits"):
            read_fits(place)
        write(join(place, "fits.parquet"), b"no table")
        for function in (read_head, read_fits):
            with pytest.raises(
                ValueError, match=r"fits.parquet: this is not a table of fits that pliant wrote"
            ):
                function(join(place, "fits.parquet"))

    def test_a_table_that_was_stopped(self, place):
        addresses.make_folder(place)
        table = join(place, "track.parquet")

        def stop(keep):
            with table_writer(table, {}, keep_when_stopped=keep) as add:
                add(_row("a.png", 0, 0.5))
                raise KeyboardInterrupt

        for keep in (False, True):
            with pytest.raises(KeyboardInterrupt):
                stop(keep)
            assert names_in(place) == ["track.parquet"] * keep

    def test_models(self, place, model, tmp_path):
        addresses.make_folder(place)
        file = join(place, "m.pliant")
        model.save(file)
        again = pliant.load(file)
        assert again.settings == model.settings
        assert np.array_equal(again.levels[-1].appearance.components, model.levels[-1].appearance.components)
        model.save(tmp_path / "copy.pliant")
        assert fingerprint(file) == fingerprint(tmp_path / "copy.pliant")
        content = read(file)
        write(file, content[:-1])
        with pytest.raises(pliant.ModelFileError, match=r"m.pliant: the file is cut off"):
            pliant.load(file)
        write(file, b"")
        with pytest.raises(pliant.ModelFileError, match=r"m.pliant: this is not a pliant model: .* 0 bytes"):
            pliant.load(file)
        with pytest.raises(pliant.ModelFileError, match=r"other.pliant: there is no such file"):
            pliant.load(join(place, "other.pliant"))


def _row(image, number, confidence):
    return {
        "image": image,
        "object": number,
        "status": "converged",
        "reason": "",
        "confidence": confidence,
        "x": [1.0, 2.0],
        "y": [3.0, 4.0],
    }


class TestStores:
    def test_what_others_write_is_seen(self, store):
        folder = "s3://bucket/shared"
        write(f"{folder}/one")
        assert not is_file(f"{folder}/two")
        assert not is_folder(f"{folder}/sub")
        assert len(addresses.files_in(folder)) == 1
        code = "import fsspec\nfor name, content in (('two', b'1'), ('sub/x', b'')):\n"
        code += "    fsspec.filesystem('s3').pipe(f'bucket/shared/{name}', content)\n"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert is_file(f"{folder}/two")
        assert is_folder(f"{folder}/sub")
        assert names_in(folder) == ["one", "two"]
        assert len(addresses.files_in(folder)) == 2
        assert read(f"{folder}/two") == b"1"
        store.pipe("bucket/shared/two", b"another")
        assert (read(f"{folder}/two"), fetched(f"{folder}/two")) == (b"another", b"another")
        assert addresses.matching(f"{folder}/*") == [f"{folder}/one", f"{folder}/two"]
        store.rm_file("bucket/shared/two")
        assert not is_file(f"{folder}/two")
        assert names_in(folder) == ["one"]

    def test_objects_that_stand_for_folders_are_no_files(self, store):
        store.call_s3("put_object", Bucket="bucket", Key="marked/", Body=b"")
        write("s3://bucket/marked/a")
        assert names_in("s3://bucket/marked") == ["a"]
        assert addresses.files_in("s3://bucket/marked") == ["s3://bucket/marked/a"]

    def test_an_image_is_one_request(self, store, monkeypatch):
        """Many are read: a look at the length of each would double the time."""
        write("s3://bucket/inputs/a.png", b"pixels")
        (image,) = addresses.files_in("s3://bucket/inputs")
        asked = []
        call = type(store)._call_s3

        async def count(self, method, *arguments, **options):
            asked.append(method)
            return await call(self, method, *arguments, **options)

        monkeypatch.setattr(type(store), "_call_s3", count)
        assert fetched(image) == b"pixels"
        assert is_file(image, listed=True)
        assert addresses.size_in_bytes(image, listed=True) == 6
        assert asked == ["get_object"]
        write("s3://bucket/inputs/b.png", b"")
        assert fetched("s3://bucket/inputs/b.png") == b""

    def test_a_large_file_goes_in_parts_and_fails_as_a_whole(self, store, monkeypatch):
        content = np.random.default_rng(0).bytes(12 * 2**20)
        monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 * 2**20)
        methods = []
        call = type(store)._call_s3

        async def fail(self, method, *arguments, **options):
            methods.append(method)
            if method == "upload_part" and options.get("PartNumber") == 2 and broken:
                raise OSError("the line is dead")
            return await call(self, method, *arguments, **options)

        monkeypatch.setattr(type(store), "_call_s3", fail)
        write("s3://bucket/large", b"old")
        broken = True
        with pytest.raises(
            OSError, match=r"s3://bucket/large: this address cannot be written \(the line is dead"
        ):
            write("s3://bucket/large", content)
        assert "abort_multipart_upload" in methods
        assert read("s3://bucket/large") == b"old"
        broken = False
        write("s3://bucket/large", content)
        assert methods.count("complete_multipart_upload") == 1
        assert read("s3://bucket/large") == content
        addresses.remove("s3://bucket/large")

    def test_threads_share_a_store(self, store):
        def both(number):
            write(f"s3://bucket/threads/{number}", bytes([number]) * 10_000)
            return read(f"s3://bucket/threads/{number}") == bytes([number]) * 10_000

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(both, range(40)))
        assert len(names_in("s3://bucket/threads")) == 40

    def test_a_bucket_is_never_made(self, store):
        for function in (addresses.make_folder, addresses.require_folder):
            with pytest.raises(
                ValueError, match="s3://missing/run: the bucket missing does not exist: create it first"
            ):
                function("s3://missing/run")
        with pytest.raises(
            OSError, match=r"s3://missing/a: this address cannot be written \(.*bucket does not exist"
        ):
            write("s3://missing/a")
        assert names_in("s3://missing/run") == []
        with pytest.raises(ValueError, match="an address needs a bucket and a name in it"):
            addresses.require_folder_of("s3://bucket")
        assert store.ls("") == ["bucket"]


class TestRefusals:
    """A store that cannot be asked is not one without files."""

    QUESTIONS = (is_file, is_folder, names_in, fetched, read, write, addresses.make_folder, addresses.remove)

    @pytest.fixture(autouse=True)
    def anew(self, server, store, monkeypatch):
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        _forget()
        yield
        _forget()

    def refused(self, sentence):
        for ask in self.QUESTIONS:
            with pytest.raises(
                OSError, match=rf"^s3://bucket/x: this address cannot be .*{sentence}"
            ) as error:
                ask("s3://bucket/x")
            assert not isinstance(error.value, FileNotFoundError)
        with pytest.raises(
            pliant.ModelFileError, match=rf"^s3://bucket/x: this address cannot be read .*{sentence}"
        ):
            pliant.load("s3://bucket/x")

    def test_no_credentials(self, monkeypatch):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        self.refused("Unable to locate credentials")

    def test_wrong_credentials(self, server):
        def strict(after):
            asked = Request(
                f"{server}/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"}
            )
            urlopen(asked).close()

        strict(0)
        try:
            self.refused("(Forbidden|Access Key Id)")
        finally:
            strict("inf")

    def test_no_server(self, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        self.refused("Could not connect")

    def test_a_run_is_refused_before_it_begins(self, command, face_folders):
        said = command("train", face_folders / "train", "-o", "s3://missing/m.pliant", code=ERROR)
        assert "s3://missing: the bucket missing does not exist" in said.err


@pytest.fixture(scope="module")
def faces(store, face_folders):
    """Folders train and test of images and landmark files, in the store."""
    store.put(f"{face_folders}/", "bucket/faces/", recursive=True)
    return "s3://bucket/faces"


def test_training_from_a_store_to_a_store(command, faces):
    """The model and what is written beside it, in the folder of the images, which has been listed by then."""
    out = f"{faces}/train"
    said = command("train", f"{faces}/train", "-o", f"{out}/m.pliant", *SMALL, "--hold-out", 0.2)
    assert f"wrote {out}/m.pliant (" in said.out
    assert [name for name in names_in(out) if name[0] == "m"] == ["m.held-out.csv", "m.pliant", "m.toml"]
    assert b"m.pliant was trained by pliant" in read(f"{out}/m.toml")
    assert json.loads(command("inspect", f"{out}/m.pliant", "--json").out)["landmarks"] == 68
    held = pliant.load_dataset(f"{out}/m.held-out.csv")
    assert len(held) == 3
    assert held[0].image().shape == (96, 96, 3)


def test_fits_of_a_store_are_those_of_files(command, model, faces, face_folders, tmp_path):
    points = []
    for at, images in ((faces, f"{faces}/test"), (tmp_path, face_folders / "test")):
        model.save(f"{at}/model.pliant")
        command("fit", f"{at}/model.pliant", images, "-o", f"{at}/fits", "-q")
        points.append(read_fits(f"{at}/fits")["points"])
    assert np.array_equal(*points)


def test_an_evaluation_is_written_to_a_store(command, model, faces):
    model.save(f"{faces}/m.pliant")
    noise = ("--start", "noise", "--starts", 1, "-q")
    command("evaluate", f"{faces}/m.pliant", f"{faces}/test", *noise, "-o", f"{faces}/errors.parquet")
    assert read_fits(f"{faces}/errors.parquet")["error"].shape == (7,)


def test_records_are_written_to_a_store(store):
    points = np.ones((2, 2))
    record = FitRecord(
        "a.png", 0, (9, 9), "po-fa-gn", 0, Status.CONVERGED, "", 0.1, 1.0, np.nan, np.ones(2), points, 0.5, 1.0, 3,
        0.1, True,
    )  # fmt: skip
    for ending in (".csv", ".json"):
        write_records(f"s3://bucket/records{ending}", [record])
        assert b"a.png" in read(f"s3://bucket/records{ending}")
