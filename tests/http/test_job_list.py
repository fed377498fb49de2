"""GET /v1/jobs: pages, filters, order."""

import json
import re
import unittest
from urllib.parse import quote

from support import DaemonTest, linear_model, wait_until

COUNT = 25


class ListTest(DaemonTest):
    """25 jobs: one that does work, 19 conversions answered from its results, 5 analyses; and one that never ends."""
    FLAGS = ("--workers", 2)
    FAULT = "hang@hang"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        raw = linear_model()
        cls.jobs = []
        for i in range(COUNT):
            kind = "analyze" if i % 5 == 4 else "convert"
            more = {"to": "safetensors"} if i % 5 == 0 else {}
            job = cls.daemon.submit(raw, kind=kind, labels={"n": str(i), "half": "first" if i < 10 else "second"}, **more)
            cls.jobs.append(cls.daemon.ended(job["id"]))

    def page(self, query):
        status, headers, document = self.daemon.ask("GET", "/v1/jobs?" + query)
        self.assertEqual(200, status, document)
        return headers, document

    def numbers(self, query):
        """The label n of every job of all pages, as they come."""
        found, cursor = [], ""
        while cursor is not None:
            _, document = self.page(query + (f"&cursor={cursor}" if cursor else ""))
            found += [int(job["labels"]["n"]) for job in document["jobs"]]
            cursor = document["next_cursor"]
        return found

    def test_a_cursor_leads_through_all_of_them_newest_first(self):
        sizes, found, cursor = [], [], ""
        while cursor is not None:
            _, document = self.page(f"limit=10{cursor}")
            sizes.append(len(document["jobs"]))
            found += document["jobs"]
            cursor = document["next_cursor"] and "&cursor=" + document["next_cursor"]
        self.assertEqual([10, 10, 5], sizes)
        self.assertEqual(self.jobs[::-1], found, "and each is the job as it is got alone")

    def test_a_page_that_is_just_full_is_the_last(self):
        self.assertIsNone(self.page("limit=25")[1]["next_cursor"])
        self.assertIsNotNone(self.page("limit=24")[1]["next_cursor"])

    def test_the_link_is_the_next_page_of_the_same_question(self):
        headers, document = self.page("limit=3&label=half=second&state=succeeded,failed&order=asc")
        link = re.fullmatch(r'<(/v1/jobs\?.*)>; rel="next"', headers["Link"])[1]
        _, _, out = self.curl("-f", self.daemon.base + link, expect=0)
        self.assertEqual(["13", "14", "15"], [job["labels"]["n"] for job in json.loads(out)["jobs"]])
        self.assertIsNone(self.page("limit=200")[0]["Link"])

    def test_the_order_may_be_turned(self):
        self.assertEqual(list(range(COUNT)), self.numbers("limit=7&order=asc"))
        self.assertEqual(list(range(COUNT))[::-1], self.numbers("limit=7&order=desc"))

    def test_jobs_that_come_meanwhile_do_not_shift_the_pages(self):
        _, first = self.page("limit=10")
        job = self.daemon.submit(linear_model(), labels={"n": "99", "half": "none"})
        _, second = self.page(f"limit=10&cursor={first['next_cursor']}")
        self.daemon.request("DELETE", job["href"])
        self.assertEqual([job["id"] for job in self.jobs[::-1][10:20]], [job["id"] for job in second["jobs"]])

    def test_filters(self):
        convert = [i for i in range(COUNT) if i % 5 != 4]
        for query, wanted in (("kind=analyze", [4, 9, 14, 19, 24]), ("kind=convert", convert), ("target=safetensors", [0, 5, 10, 15, 20]),
                              ("target=mlx", [i for i in convert if i % 5]), ("label=n=7", [7]), ("label=half=first", list(range(10))),
                              ("label=half=third", []), ("label=missing=", []), ("state=succeeded", list(range(COUNT))),
                              ("state=queued&state=running", []), ("state=failed,dead,cancelled,expired", []),
                              ("state=queued&state=succeeded,dead", list(range(COUNT))),
                              ("kind=convert&target=safetensors&label=half=first", [0, 5])):
            with self.subTest(query):
                self.assertEqual(wanted, self.numbers(query + "&order=asc&limit=4"))

    def test_what_runs_is_found_by_its_state(self):
        job = self.daemon.submit(linear_model(), name="hang.pt", fresh=True, labels={"n": "50"})
        try:
            self.assertTrue(wait_until(lambda: self.numbers("state=running") == [50]))
            self.assertEqual([], self.numbers("state=queued"))
        finally:
            self.assertEqual(204, self.daemon.request("DELETE", job["href"])[0])

    def test_bounds_of_the_time_of_creation_are_exclusive(self):
        tenth = self.jobs[10]["created_at"]
        at = [job["created_at"] for job in self.jobs]
        after = [i for i in range(COUNT) if at[i] > tenth]
        before = [i for i in range(COUNT) if at[i] < tenth]
        self.assertEqual(after, self.numbers(f"created_after={tenth}&order=asc"))
        self.assertEqual(before, self.numbers(f"created_before={tenth}&order=asc"))
        zoned = quote(tenth.replace("Z", "+00:00"))
        self.assertEqual(after, self.numbers(f"created_after={zoned}&order=asc"))
        self.assertEqual([], self.numbers(f"created_after={at[-1]}"))

    def test_what_cannot_be_asked_is_refused_with_the_nearest(self):
        for query, code, where in (("limit=0", "bad_option", "limit"), ("limit=201", "bad_option", "limit"),
                                   ("limit=ten", "bad_option", "limit"), ("limt=5", "bad_option", "limt"),
                                   ("state=succeded", "bad_option", "state"), ("state=", "bad_option", "state"),
                                   ("kind=convrt", "bad_option", "kind"), ("target=mlz", "bad_option", "target"),
                                   ("order=up", "bad_option", "order"), ("order=asc&order=asc", "bad_option", "order"),
                                   ("label=a", "bad_option", "label"), ("label==b", "bad_option", "label"),
                                   ("created_after=yesterday", "bad_option", "created_after"),
                                   ("created_before=2026-02-30T00:00:00Z", "bad_option", "created_before"),
                                   ("cursor=", "bad_cursor", "cursor"), ("cursor=abc", "bad_cursor", "cursor"),
                                   ("cursor=" + "A" * 52, "bad_cursor", "cursor")):
            with self.subTest(query):
                self.assert_refused(self.daemon.request("GET", "/v1/jobs?" + query), 400, code, where)
        self.assertIn("succeeded", self.daemon.ask("GET", "/v1/jobs?state=succeded")[2]["hint"])
        self.assertEqual(200, self.daemon.request("GET", "/v1/jobs?limit=200")[0])


if __name__ == "__main__":
    unittest.main()
