"""Amounts as people write them."""

import unittest

from omega_cell import Group, Kinds, Requirement, Task, Toleration, _api
from omega_cell.units import Kind

KINDS = Kinds([Kind("cpu", "milli"), Kind("memory", "bytes"), Kind("licences", "count")])


class Amounts(unittest.TestCase):
    def test_texts_and_numbers(self) -> None:
        for written, read in [
            ({"cpu": 0.5}, [500]),
            ({"cpu": "500m"}, [500]),
            ({"cpu": 0.1}, [100]),
            ({"cpu": 2, "memory": "2GiB"}, [2000, 2 << 30]),
            ({"memory": "1.5Gi"}, [0, 3 << 29]),
            ({"memory": "10MB"}, [0, 10_000_000]),
            ({"memory": 4096, "licences": 1}, [0, 4096, 1]),
            ({"licences": 0}, []),
        ]:
            with self.subTest(written):
                self.assertEqual(KINDS.amounts(written), read)

    def test_what_is_no_amount_names_field_and_value(self) -> None:
        for named, says in [
            ({"cpu": "much"}, "cpu: 'much' is not an amount"),
            ({"cpu": 0.0001}, "cpu: 0.0001 must be a multiple of 0.001"),
            ({"cpu": -1}, "cpu: -1 must be a multiple"),
            ({"memory": "2GiX"}, "memory: '2GiX'"),
            ({"memory": "1..2Gi"}, "memory: '1..2' is not a number"),
            ({"licences": 0.5}, "licences: 0.5 must be a multiple of 1"),
            ({"cpu": True}, "cpu: True is not an amount"),
            ({"disk": 1}, "'disk' is not a resource kind of this cell; its kinds are cpu, memory, licences"),
        ]:
            with self.subTest(named):
                with self.assertRaises(ValueError) as caught:
                    KINDS.amounts(named)
                self.assertIn(says, str(caught.exception))

    def test_amounts_by_name(self) -> None:
        self.assertEqual(KINDS.named([1500, 0, 3]), {"cpu": 1.5, "licences": 3})


class Ports(unittest.TestCase):
    def test_the_cell_chooses_ports_without_a_number(self) -> None:
        message = Group(ports={"http": "any", "metrics": 9100}).to_message(KINDS)
        self.assertEqual(list(message.any_ports), ["http"])
        self.assertEqual([port.number for port in message.rules.ports], [9100])
        self.assertEqual(Group.of_message(message, KINDS).ports, {"9100": 9100, "http": "any"})
        message.run.ports.add(name="metrics", number=9100)
        self.assertEqual(Group.of_message(message, KINDS).ports, {"metrics": 9100, "http": "any"})

class Rules(unittest.TestCase):
    def test_a_group_keeps_its_rules_about_machines(self) -> None:
        group = Group(
            require=(Requirement("zone", "in", ("a", "b")), Requirement("gpu")),
            tolerations=(
                Toleration("spot"),
                Toleration("owner", "ads", "no_schedule"),
                Toleration("owner", ""),
                Toleration(None, effect="no_execute"),
            ),
        )
        message = group.to_message(KINDS)
        self.assertEqual(Group.of_message(message, KINDS), group)
        # One of several selectors would be a stricter condition.
        message.rules.affinity.required.any.add().labels.extend([Requirement("disk").to_message()])
        self.assertEqual(Group.of_message(message, KINDS).require, ())


class TaskPorts(unittest.TestCase):
    def test_a_task_has_its_ports_by_name(self) -> None:
        message = _api.message("TaskStatus")()
        message.ports.add(name="http", number=20017)
        self.assertEqual(Task.of_message(message).ports, {"http": 20017})


if __name__ == "__main__":
    unittest.main()
