"""Rows of random calls kept in a file, for a run that goes on where another stopped."""

import json


class RowsFile:
    """A line for each row, behind one that says what it is a run of; of two rows of a call the later counts. Without a path it holds nothing."""

    def __init__(self, path):
        self.path, self.run, self.rows = path, None, {}
        if path and path.exists() and (lines := path.read_text().splitlines()):
            self.run, *rows = map(json.loads, lines)
            self.rows = {(row["family"], row["index"]): row for row in rows}

    def begin(self, run):
        """Says what is measured. Raises ValueError where the file holds rows of another run."""
        if self.run is None:
            self.write(run)
        elif self.run != run:
            raise ValueError(f"--rows {self.path} holds rows of {self.run}, and this is {run}")
        self.run = run

    def write(self, line):
        if self.path:
            with self.path.open("a") as file:
                print(json.dumps(line), file=file)

    def append(self, row):
        self.write(row)
        self.rows[row["family"], row["index"]] = row

    def row_of(self, call):
        return self.rows.get((call.family, call.index))
