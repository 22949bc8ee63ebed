"""PouchDB with its own server, express-pouchdb: how many requests a first replication takes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

NAME = "PouchDB"
INSTALLATION = "Node with npm"
_VERSION = "9.0.0"
_PACKAGES = (
    *(f"pouchdb-{part}@{_VERSION}" for part in ("core", "adapter-memory", "adapter-http", "replication")),
    "express-pouchdb@4.2.0",
    "express@4.21.2",
)
_FOLDER = Path(__file__).parents[2] / ".venv" / "pouchdb"
_PROGRAM = """
const PouchDB = require("pouchdb-core");
for (const part of ["adapter-memory", "adapter-http", "replication"]) PouchDB.plugin(require(`pouchdb-${part}`));
const Held = PouchDB.defaults({ adapter: "memory" });

async function main(documents) {
  const app = require("express")();
  let requests = 0;
  app.use((_request, _response, next) => { requests += 1; next(); });
  const server = { mode: "minimumForPouchDB", inMemoryConfig: true, logPath: "/dev/null" };
  app.use("/db", require("express-pouchdb")(Held, server));
  const listening = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => listening.once("listening", resolve));
  const held = new Held("held"), note = "x".repeat(180);
  await held.bulkDocs(Array.from({ length: documents }, (_, n) => ({ _id: String(n), name: "hub", note })));
  const device = new PouchDB("device", { adapter: "memory" });
  const url = `http://127.0.0.1:${listening.address().port}/db/held`;
  const result = await PouchDB.replicate(url, device);
  if (result.docs_written !== documents) throw new Error(`${result.docs_written} documents came`);
  console.log(requests);
  process.exit(0);
}

main(Number(process.argv[1]));
"""


def count_requests(documents: int) -> int | None:
    """Return the requests of a first replication over HTTP; None where Node is not installed."""
    if shutil.which("npm") is None:
        return None
    if not (_FOLDER / "node_modules").is_dir():
        _FOLDER.mkdir(exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(_FOLDER), *_PACKAGES]
        subprocess.run(command, check=True, capture_output=True)
    ended = subprocess.run(
        ["node", "-e", _PROGRAM, str(documents)], check=True, capture_output=True, text=True, cwd=_FOLDER
    )
    return int(ended.stdout)
