import { expect, it } from 'vitest';
import { archiveFindings } from './archiveFindings.ts';

const archive = { archived_before: null, ran_at: null, due_days: 0, problems: [] };

it('says of an archive up to which day it reaches, and warns of each problem', () => {
  expect(archiveFindings(null)).toEqual([]);
  expect(archiveFindings(archive)).toMatchObject([{ level: 'ok', detail: 'has no day yet' }]);
  expect(archiveFindings({ ...archive, archived_before: '2026-11-01T00:00:00.000Z' })).toMatchObject([
    { level: 'ok', detail: 'has the days before 2026-11-01' },
  ]);
  const problems = ['day=2026-10-01/attempts-00000.parquet of the archive is missing', '3 days wait'];
  expect(archiveFindings({ ...archive, problems })).toMatchObject(
    problems.map((detail) => ({
      check: 'archive',
      level: 'warn',
      detail,
      advice: expect.stringContaining('docs/archive.md'),
    })),
  );
});
