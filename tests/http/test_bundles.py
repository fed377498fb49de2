"""Archives of files: a zip, tar or gzip around a checkpoint is unpacked by the worker, and the report says which file was taken."""

import gzip
import io
import json
import tarfile
import unittest
import zipfile

from support import DaemonTest, floats, put, read_safetensors, torch_zip

ONE, TWO = (torch_zip({"w": ("float32", (4,), floats(4, start))}) for start in (0.0, 100.0))


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files, mode):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


BASELINES = {"data": b"{}", "policy.pth": ONE, "policy.optimizer.pth": TWO, "_stable_baselines3_version": b"2.0"}


class BundleTest(DaemonTest):
    def convert(self, upload, query=""):
        answer = put(self.daemon, "/v1/convert/safetensors/m.zip" + query, upload)
        self.assertEqual(200, answer[0], answer[2])
        return read_safetensors(answer[2])["w"][2]

    def analyze(self, upload, **options):
        job = self.daemon.submit(upload, kind="analyze", options=options)
        return json.loads(self.daemon.request("GET", f"/v1/jobs/{self.daemon.ended(job['id'])['id']}/results/analysis.json")[2])

    def test_the_model_of_each_kind_of_archive_is_converted(self):
        for upload in (zipped(BASELINES), tarred({"./model_weights.ckpt": ONE, "./model_config.yaml": b"a: 1"}, "w"),
                       tarred({"model.pt": ONE}, "w:gz"), gzip.compress(ONE)):
            self.assertEqual(floats(4), self.convert(upload))

    def test_the_report_names_the_member(self):
        path = self.file("m.zip", zipped(BASELINES))
        _, files, _ = self.curl("-fOJT", path, f"{self.daemon.base}/v1/convert/mlx/", expect=0)
        archive = zipfile.ZipFile(io.BytesIO(files["m.mlx.zip"]))
        source = json.loads(archive.read("m.mlx/report.json"))["source"]
        self.assertEqual(("torch-zip", "zip", "policy.pth"), (source["form"], source["archive"], source["member"]))

    def test_a_question_lists_the_members_and_the_option_answers_it(self):
        upload = zipped({"a.pth": ONE, "b.pth": TWO})
        problem = self.assert_problem(put(self.daemon, "/v1/convert/safetensors/m.zip", upload), 422, "ambiguous_member")
        self.assertEqual(["a.pth", "b.pth"], problem["questions"])
        self.assertEqual(floats(4, 100.0), self.convert(upload, "?member=b.pth"))
        self.assert_problem(put(self.daemon, "/v1/convert/safetensors/m.zip?member=..%2Fb.pth", upload), 422,
                            "member_not_found")

    def test_the_analysis_lists_what_could_be_taken(self):
        analysis = self.analyze(zipped(BASELINES))
        self.assertEqual(("zip", "policy.pth"), (analysis["archive"], analysis["member"]))
        self.assertEqual(["policy.pth", "policy.optimizer.pth"], [member["name"] for member in analysis["members"]])
        self.assertEqual("in.zip/b.pth", self.analyze(zipped({"in.zip": zipped({"a.pth": ONE, "b.pth": TWO})}),
                                                      member="in.zip/b.pth")["member"])


if __name__ == "__main__":
    unittest.main()
