"""What people look at: charts, learning curves, timelines and pages.

In: the folders of runs, which are read and never changed. Out: text, PNG files and HTML pages.

Begin with `report_sections.py`, which makes the page of one or more runs, and `learning_curve.py`,
whose last functions all pictures share. Pictures and pages of studies are in `studies`.
"""
