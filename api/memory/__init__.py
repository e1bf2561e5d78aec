"""Episodes, facts and consolidation over an open node: stores, passes of rules, timetables."""
