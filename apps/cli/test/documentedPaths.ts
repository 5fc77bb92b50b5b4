import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** A Markdown document of the repository. */
export interface Page {
  /** Relative to the repository's root. */
  readonly file: string;
  readonly text: string;
}

/** Files that a document tells its reader to create. */
const MADE_BY_READERS = ['deploy/.env'];

/** README and the files beside it, docs/ and docs/adr/. */
export async function readPages(root: string): Promise<readonly Page[]> {
  const folders = ['.', 'docs', 'docs/adr', 'deploy'];
  const files = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(root, folder)))
        .filter((name) => name.endsWith('.md'))
        .map((name) => join(folder, name)),
    ),
  );
  return await Promise.all(
    files.flat().map(async (file) => ({ file, text: await readFile(join(root, file), 'utf8') })),
  );
}

/**
 * Descriptions of paths in backticks that start at the repository's root and do not exist. For a pattern, the folder
 * before the first wildcard must exist; for build output, the package.
 */
export function missingPaths(root: string, { file, text }: Page): readonly string[] {
  const named = [...text.matchAll(/`((?:apps|packages|proto|deploy|docs|\.ci|\.github)\/[^`\s]*)`/g)];
  return named.flatMap(([, path = '']) => {
    const real = path.replace(/\/(?:dist\/.*|[^/]*[*{…<].*)$/, '');
    return MADE_BY_READERS.includes(path) || existsSync(join(root, real)) ? [] : [`${file}: no ${path}`];
  });
}

/** Descriptions of relative links to files or headings that do not exist. */
export function brokenLinks(root: string, page: Page, pages: readonly Page[]): readonly string[] {
  const links = [...page.text.matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)];
  return links.flatMap(([link, path = '', anchor]) => {
    const target = path === '' ? page.file : join(dirname(page.file), path);
    if (path !== '' && !existsSync(join(root, target))) return [`${page.file}: no file for ${link}`];
    const text = pages.find(({ file }) => file === target)?.text;
    if (anchor === undefined || text === undefined || headingAnchors(text).includes(anchor)) return [];
    return [`${page.file}: no heading for ${link}`];
  });
}

/** The anchors of a document's headings, as GitHub makes them. */
function headingAnchors(text: string): readonly string[] {
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-'),
  );
}
