import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { innerFields } from '../src/formats/namedFields.ts';
import { GEMINI_OPERATIONS, OPERATIONS } from '../src/formats/operation.ts';
import { type Field, type Fields, MAX_ITEMS } from '../src/formats/requestFields/field.ts';

/** The bounds of the tables of all operations, in Markdown. */
function boundsTable(): string {
  const rows = new Map<string, Set<string>>();
  const add = (accepted: string, name: string) => {
    rows.set(accepted, (rows.get(accepted) ?? new Set()).add(name));
  };
  const seen = new Set<Field>();
  const visit = (name: string, field: Field): void => {
    const { bound, value, refers } = field;
    if (bound) add(`${bound.accepts} of at most ${bound.bytes.toLocaleString('en')} bytes`, name);
    const list = value.kind === 'kinds' ? value.list?.value : value;
    if (list?.kind === 'list' && list.most !== MAX_ITEMS) {
      add(`a list of at most ${(list.most ?? MAX_ITEMS).toLocaleString('en')}`, name);
    }
    if (seen.has(field)) return;
    seen.add(field);
    if (refers) all(refers);
    if (value.kind === 'object') all(value.fields);
    else if (value.kind === 'variants') for (const one of innerFields(value)) one && all({ '': one });
    else for (const inner of innerFields(value)) if (inner) visit(name, inner);
  };
  const all = (fields: Fields) => {
    for (const [name, field] of Object.entries(fields)) visit(name, field);
  };
  for (const { requestFields } of [...OPERATIONS, ...GEMINI_OPERATIONS]) all(requestFields);
  const lines = [...rows].map(([accepted, names]) => {
    const listed = [...names].filter((name) => name !== '' && name !== 'include_usage').sort();
    return `| ${accepted} | ${listed.map((name) => `\`${name}\``).join(', ')} |`;
  });
  return ['| accepted | fields |', '| --- | --- |', ...lines.sort()].join('\n');
}

it('docs/limits.md has the bounds of the tables', () => {
  const page = readFileSync(new URL('../../../docs/limits.md', import.meta.url), 'utf8');
  // The page is formatted.
  const plain = page.replaceAll(/ +/g, ' ').replaceAll(/-{3,}/g, '---');
  expect(plain).toContain(boundsTable());
});
