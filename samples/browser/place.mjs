// Where an artifact is read from: files that a person chose, or a folder of this page's own origin.
// A file is read once; what is verified is, byte for byte, what is used.

const refuse = (code, found) => { throw Object.assign(Error(found), { code }); };

/** Returns the place of chosen files, each `{ name, file }` with its path in the folder. */
export function chosen(files) {
  return kept({
    read: async (name, mostBytes) => {
      const { file } = files.find((one) => one.name === name) ?? refuse('ENOENT', name);
      return file.size > mostBytes ? refuse('SIZE_MISMATCH', name)
        : new Uint8Array(await file.arrayBuffer());
    },
    entries: () => {
      const folders = new Set(files.flatMap(({ name }) =>
        name.split('/').slice(0, -1).map((_, depth, all) => all.slice(0, depth + 1).join('/'))));
      return [...[...folders].map((name) => ({ name, isFolder: true })),
        ...files.map(({ name }) => ({ name, isFile: true }))];
    },
  });
}

/** Returns the place of a folder of this site. Nothing lists it: only signed files are read. */
export function served(address) {
  const folder = new URL(address.replace(/\/*$/, '/'), self.location.href);
  if (folder.origin !== self.location.origin) refuse('OTHER_ORIGIN', folder.href);
  return kept({
    read: async (name, mostBytes) => {
      const answer = await fetch(new URL(name, folder), { redirect: 'error' });
      if (!answer.ok) refuse('ENOENT', name);
      const parts = [];
      let size = 0;
      for await (const part of answer.body) {
        size += part.length;
        if (size > mostBytes) refuse('SIZE_MISMATCH', name);
        parts.push(part);
      }
      return new Uint8Array(await new Blob(parts).arrayBuffer());
    },
    entries: () => [],
  });
}

/** Returns the same place, which keeps what was read in `files`. */
function kept({ read, entries }) {
  const files = new Map();
  return {
    files,
    entries,
    async read(name, mostBytes) {
      const bytes = await read(name, mostBytes);
      files.set(name, bytes);
      return bytes;
    },
  };
}
