// Fails if a file of the data plane parses bytes of a caller: `node packages/testing/callerBytes.mjs`, run from the repository's
// root. `formats/fieldReader.ts` is the only module that does, within the bounds of the tables: a short request may parse to more
// memory than a process has. Each file below parses something else, which is said beside it.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const FOLDERS = ['apps/data-plane/src', 'packages/budget/src', 'packages/dialects/src'];

const PARSES = {
  'apps/data-plane/src/formats/fieldReader.ts': 'fields of callers, each within its bound',
  'packages/budget/src/holder/persistedLeases.ts': 'a file of its own',
  'apps/data-plane/src/cache/cachedResponse.ts': 'an entry of its own cache',
  'apps/data-plane/src/cache/completeness.ts': 'responses that may be cached, which are small',
  'apps/data-plane/src/attempt/objectRefusal.ts': 'the beginning of an error of a vendor',
  'apps/data-plane/src/formats/jsonFields.ts': 'for responses: whoever imports it is listed here',
  'apps/data-plane/src/formats/jsonPruner.ts': 'small values of responses',
  'apps/data-plane/src/formats/pruneJson.ts': 'small responses',
  'apps/data-plane/src/formats/responseFormat.ts': 'responses',
  'apps/data-plane/src/formats/responsePrefix.ts': 'the beginning of a response',
  'apps/data-plane/src/request/storing.ts': 'a response that was translated here',
  'apps/data-plane/src/request/testedAnswer.ts': "a vendor's answer to the test of its connector",
  'apps/data-plane/src/routing/pinStore.ts': 'an entry of its own store',
  'apps/data-plane/src/run.ts': 'its own package.json',
  'apps/data-plane/src/upstream/bedrock/answerShapes.ts': 'events of a vendor',
  'apps/data-plane/src/upstream/bedrock/eventFrames.ts': 'events of a vendor',
  'apps/data-plane/src/upstream/bedrock/invocationAnswer.ts': 'an error of a vendor',
  'apps/data-plane/src/upstream/vendorRefusal.ts': 'an error of a vendor',
  'apps/data-plane/src/upstream/vertex/vertexError.ts': 'an error of a vendor',
  'packages/dialects/src/counting.ts': "a vendor's count",
  'packages/dialects/src/json/jsonCursor.ts': 'a key of at most 1 KiB',
  'packages/dialects/src/json/parseBody.ts': 'a body that is translated, after its values were counted',
  'packages/dialects/src/json/writeJson.ts':
    'events of vendors, and schemas within a body whose values were counted',
};

const PARSE = /\bJSON\s*(?:\?\.|\.|\[)\s*['"]?parse\b|\{[^}]*\bparse\b[^}]*\}\s*=\s*JSON\b|=\s*JSON\s*[;,)]/;
const IMPORT = /\bimport\s*\{[^}]*\bparseJson\b[^}]*\}\s*from\s*'[^']*jsonFields\.ts'/;
const COMMENTS = /\/\*[\s\S]*?\*\/|(?<=^|\s)\/\/.*$/gm;

const parsing = FOLDERS.flatMap((folder) =>
  (existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : [])
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .map((file) => join(folder, file).replaceAll('\\', '/'))
    .filter((path) => {
      const code = readFileSync(path, 'utf8').replaceAll(COMMENTS, '');
      return PARSE.test(code) || IMPORT.test(code);
    }),
);
const unlisted = parsing.filter((path) => !Object.hasOwn(PARSES, path));
const stale = Object.keys(PARSES).filter((path) => existsSync(path) && !parsing.includes(path));
for (const path of unlisted) {
  process.stderr.write(
    `error caller-bytes: ${path} parses JSON. Read a caller's fields by formats/fieldReader.ts; or list in packages/testing/callerBytes.mjs what else it parses.\n`,
  );
}
for (const path of stale)
  process.stderr.write(`error caller-bytes: ${path} parses nothing: remove it from the list.\n`);
process.stdout.write(`${parsing.length} modules parse JSON, ${unlisted.length} unlisted\n`);
process.exitCode = unlisted.length + stale.length > 0 ? 1 : 0;
