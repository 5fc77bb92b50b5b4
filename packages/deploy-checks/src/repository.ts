import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';

export const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
export const CHART = join(REPOSITORY, 'deploy/helm/weighbridge');

export const read = (path: string): Promise<string> => readFile(join(REPOSITORY, path), 'utf8');

/** Parses the documents of a YAML text. Throws if it is invalid or has a duplicate key. */
export function parseYaml(text: string): unknown[] {
  return parseAllDocuments(text, { uniqueKeys: true, merge: true })
    .map((document) => {
      const [error] = [...document.errors, ...document.warnings];
      if (error) throw error;
      return document.toJS() as unknown;
    })
    .filter((document) => document !== null);
}
