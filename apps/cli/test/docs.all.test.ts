import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { documents, documentsWithCommands, runDocuments } from './runDocuments.ts';

describe('commands in all documents', () => {
  const ran = runDocuments(documentsWithCommands);

  it('write the secrets of the keys from LiteLLM to a file that only its owner can read', async () => {
    const { folder, service, paste } = ran();
    const file = join(folder, 'new-keys.jsonl');
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const issued = (await readFile(file, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(issued).toEqual([
      { name: 'notes', principal_id: 'ada@example.com', id: expect.any(String), key: expect.any(String) },
      { name: 'batch', principal_id: 'team:engines', id: expect.any(String), key: expect.any(String) },
    ]);
    for (const { key: secret } of issued) {
      const models = await fetch(`${service.inferenceUrl}/v1/models`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      expect(models.status).toBe(200);
    }
    // It doesn't overwrite a file; with another file, it writes the same keys again.
    const block = documents.blocks.find(({ text }) => text.includes('--issue-keys'));
    if (!block) throw new Error('no block issues keys');
    const again = (text: string) => paste({ ...block, text }, join(folder, 'again.state'));
    expect((await again(block.text)).output).toContain('EEXIST');
    await again(block.text.replace('new-keys', 'other-keys'));
    expect(await readFile(join(folder, 'other-keys.jsonl'), 'utf8')).toBe(await readFile(file, 'utf8'));
  });
});
