import math
import unittest

import rule


class Rule(unittest.TestCase):
    def test_a_short_job_overtakes_until_the_long_one_has_waited(self):
        rule.configure({"weight": "1"})
        long, short, late = rule.key(0, 100), rule.key(50, 10), rule.key(95, 10)
        self.assertLess(short, long)
        self.assertLess(long, late)

    def test_without_weight_it_is_first_come_first_served(self):
        rule.configure({"weight": "0"})
        self.assertEqual(rule.key(0, math.inf), 0)

    def test_a_weight_below_zero_is_refused(self):
        for weight in ["-1", "inf", "nan", "much"]:
            with self.assertRaises(ValueError):
                rule.configure({"weight": weight})


if __name__ == "__main__":
    unittest.main()
