import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const folder = fileURLToPath(new URL('../../../docs/adr/', import.meta.url));
const files = readdirSync(folder).filter((file) => /^\d{4}-.+\.md$/.test(file));
const INDEX = readFileSync(`${folder}README.md`, 'utf8');

describe('decisions in docs/adr', () => {
  it('each file has its number, a title and a status', () => {
    const wrong = files.filter((file) => {
      const [title = '', , status = ''] = readFileSync(folder + file, 'utf8').split('\n');
      return !title.startsWith(`# ${Number(file.slice(0, 4))}. `) || !status.startsWith('Status: ');
    });
    expect(wrong).toEqual([]);
  });

  it('the list has every number once, with the title of its file', () => {
    const last = Math.max(...files.map((file) => Number(file.slice(0, 4))));
    const rows = INDEX.split('\n')
      .filter((line) => /^\| \d/.test(line))
      .map((line) => line.replace(/ +/g, ' '));
    const expected = Array.from({ length: last }, (_, at) => {
      const found = files.filter((file) => Number(file.slice(0, 4)) === at + 1);
      if (found.length === 0) return `| ${at + 1} | withdrawn: no decision stands under this number |`;
      const [title = ''] = readFileSync(folder + found[0], 'utf8').split('\n');
      return `| ${at + 1} | [${title.replace(/^# \d+\. /, '')}](${found.join()}) |`;
    });
    expect(rows).toEqual(expected);
  });
});
