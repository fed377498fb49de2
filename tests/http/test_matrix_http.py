"""GET /v1/matrix: the list, each table whole and filtered, in three formats."""

import csv
import io
import unittest

from support import DaemonTest

STATUS = {"exact", "renamed", "emulated", "approximate", "needs_input", "refused", "planned"}


class MatrixTest(DaemonTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.list = cls.daemon.ask("GET", "/v1/matrix")[2]["matrices"]
        cls.whole = {m["name"]: cls.daemon.ask("GET", m["href"])[2] for m in cls.list}

    def get(self, path, **headers):
        return self.daemon.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def rows(self, path):
        status, _, document = self.daemon.ask("GET", path)
        self.assertEqual(200, status, document)
        self.assertEqual(document["count"], len(document["rows"]))
        return document["rows"]

    def test_the_list_counts_what_the_tables_hold(self):
        self.assertEqual(2, len(self.list))
        for matrix in self.list:
            document = self.whole[matrix["name"]]
            self.assertEqual((matrix["rows"], matrix["title"]), (len(document["rows"]), document["title"]))
            self.assertEqual(matrix["rows"], sum(section["rows"] for section in matrix["sections"]))
            counted = {}
            for row in document["rows"]:
                counted[row["ckptd"]["status"]] = counted.get(row["ckptd"]["status"], 0) + 1
            self.assertEqual(counted, {status: n for status, n in matrix["status"].items() if n})

    def test_every_row_has_its_words_and_a_status(self):
        for document in self.whole.values():
            self.assertGreater(len(document["rows"]), 20)
            for row in document["rows"]:
                self.assertEqual({"section", "key", "cells", "ckptd"}, set(row))
                self.assertTrue(row["key"] and row["cells"])
                self.assertIn(row["ckptd"]["status"], STATUS)

    def test_sections_and_status_filter(self):
        for matrix in self.list:
            rows = self.whole[matrix["name"]]["rows"]
            first, second = [section["name"] for section in matrix["sections"]][:2]
            statuses = sorted({row["ckptd"]["status"] for row in rows})[:2]
            for query, wanted in ((f"section={first}", lambda r: r["section"] == first),
                                  (f"section={first},{second}", lambda r: r["section"] in (first, second)),
                                  (f"section={first}&section={second}", lambda r: r["section"] in (first, second)),
                                  (f"status={statuses[0]}", lambda r: r["ckptd"]["status"] == statuses[0]),
                                  (f"status={','.join(statuses)}", lambda r: r["ckptd"]["status"] in statuses),
                                  (f"status={statuses[0]}&section={first}",
                                   lambda r: r["ckptd"]["status"] == statuses[0] and r["section"] == first)):
                with self.subTest(query):
                    self.assertEqual([row for row in rows if wanted(row)], self.rows(f"{matrix['href']}?{query}"))

    def test_a_key_is_found_with_and_without_its_module(self):
        found = [matrix["href"] for matrix in self.list if any("Conv2d" in row["key"] for row in self.whole[matrix["name"]]["rows"])]
        self.assertTrue(found)
        for href in found:
            rows = self.rows(href + "?key=Conv2d")
            self.assertTrue(rows)
            for key in ("nn.Conv2d", "torch.nn.Conv2d"):
                self.assertEqual(rows, self.rows(f"{href}?key={key}"))
        more = self.rows(found[0] + "?key=Conv2d&key=Linear")
        self.assertGreater(len(more), len(self.rows(found[0] + "?key=Conv2d")))

    def test_a_key_that_nothing_fits_gives_the_nearest(self):
        for matrix in self.list:
            row = self.whole[matrix["name"]]["rows"][0]
            document = self.daemon.ask("GET", f"{matrix['href']}?key=Conv2dd")[2]
            self.assertEqual((0, []), (document["count"], document["rows"]))
            self.assertIn("near", document, row)

    def test_csv_has_a_line_for_every_row(self):
        for matrix in self.list:
            status, headers, raw = self.get(matrix["href"] + "?format=csv")
            self.assertEqual((200, "text/csv; charset=utf-8"), (status, headers["Content-Type"]))
            lines = list(csv.reader(io.StringIO(raw.decode(), newline="")))
            rows = self.whole[matrix["name"]]["rows"]
            self.assertEqual((["section", "key"], ["status", "rule", "note", "since"]), (lines[0][:2], lines[0][-4:]))
            self.assertEqual([(row["section"], row["key"], row["ckptd"]["status"]) for row in rows],
                             [(line[0], line[1], line[-4]) for line in lines[1:]])
            self.assertEqual({len(lines[0])}, {len(line) for line in lines})

    def test_markdown_is_a_table_for_every_section(self):
        for matrix in self.list:
            status, headers, raw = self.get(matrix["href"] + "?format=md")
            self.assertEqual((200, "text/markdown; charset=utf-8"), (status, headers["Content-Type"]))
            self.assertEqual(len(matrix["sections"]), sum(line.startswith("## ") for line in raw.decode().splitlines()))

    def test_accept_chooses_the_format(self):
        href = self.list[0]["href"]
        for accept, wanted in (("text/csv", "text/csv"), ("text/markdown", "text/markdown"), ("application/json", "application/json"), ("*/*", "application/json"),
                               ("text/*", "text/csv"), ("text/csv;q=0.5, text/markdown", "text/markdown"), ("application/json;q=0, */*", "text/csv")):
            with self.subTest(accept):
                status, headers, _ = self.get(href, Accept=accept)
                self.assertEqual((200, wanted, "Accept"), (status, headers["Content-Type"].split(";")[0], headers["Vary"]))
        self.assert_refused(self.get(href, Accept="image/png"), 406, "not_acceptable", "Accept")
        self.assertEqual("text/csv", self.get(href + "?format=csv", Accept="application/json")[1]["Content-Type"].split(";")[0])

    def test_what_is_known_is_304(self):
        href = self.list[0]["href"]
        etags = set()
        for path in ("/v1/matrix", href, href + "?format=csv", href + "?format=md", href + "?status=exact"):
            headers = self.get(path)[1]
            self.assertEqual((304, b""), self.get(path, If_None_Match=headers["ETag"])[::2])
            self.assertEqual(200, self.get(path, If_None_Match='"x"')[0])
            etags.add(headers["ETag"])
        self.assertEqual(5, len(etags))

    def test_head_is_get_without_the_bytes(self):
        for path in ("/v1/matrix", self.list[0]["href"], self.list[1]["href"] + "?status=exact"):
            whole = self.get(path)
            status, headers, raw = self.daemon.request("HEAD", path)
            self.assertEqual((200, b"", str(len(whole[2])), whole[1]["ETag"]), (status, raw, headers["Content-Length"], headers["ETag"]))

    def test_unknown_names_and_words_are_answered_with_the_nearest(self):
        name = self.list[0]["name"]
        document = self.assert_refused(self.get(f"/v1/matrix/{name}x"), 404, "matrix_not_found")
        self.assertIn(name, document["hint"])
        href = self.list[0]["href"]
        self.assertIn("exact", self.assert_refused(self.get(href + "?status=exct"), 400, "bad_option", "status")["hint"])
        self.assertIn("section", self.assert_refused(self.get(href + "?secton=a"), 400, "bad_option", "secton")["hint"])
        for query in ("section=", "section=x", "format=xml", "format=csv&format=md", "status="):
            self.assert_refused(self.get(f"{href}?{query}"), 400, "bad_option")
        self.assert_refused(self.get("/v1/matrix?status=exact"), 400, "bad_option", "status")


if __name__ == "__main__":
    unittest.main()
