import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** The reasons why the test does not run a block: a closed list, so that each keeps its meaning. */
const MARKS = {
  cluster: 'needs a Kubernetes cluster',
  docker: 'needs a container engine',
  outside: 'needs something of yours that no test has, such as a Postgres, its own proxy or the internet',
  elsewhere: 'is run by another test, or by whoever runs the tests',
} as const;

/** A block of commands in a document. */
export interface CommandBlock {
  readonly file: string;
  readonly line: number;
  readonly text: string;
  /** Undefined if it is run. */
  readonly mark: keyof typeof MARKS | undefined;
}

export interface Documents {
  readonly blocks: readonly CommandBlock[];
  /** Descriptions of what breaks the convention. */
  readonly faults: readonly string[];
}

/** No block without a language may begin with these: it would never be run. */
const COMMANDS =
  /^\s*\$?\s*(pnpm|npx|npm|node|curl|weighbridge|kubectl|helm|docker|export|cat|psql|pg_dump)\b/m;

/** Every block of commands in the README and in docs/, and the errors in their marks. */
export async function readDocuments(root: string): Promise<Documents> {
  const names = [...(await readdir(join(root, 'docs'))), 'examples/README.md'];
  const docs = names.filter((name) => name.endsWith('.md')).sort();
  const read = await Promise.all(
    ['README.md', ...docs.map((name) => `docs/${name}`)].map(async (file) =>
      blocksOf(file, await readFile(join(root, file), 'utf8')),
    ),
  );
  return { blocks: read.flatMap(({ blocks }) => blocks), faults: read.flatMap(({ faults }) => faults) };
}

export function blocksOf(file: string, content: string): Documents {
  const blocks: CommandBlock[] = [];
  const faults: string[] = [];
  let open: { info: string; indent: number; line: number; lines: string[] } | undefined;
  for (const [index, text] of content.split('\n').entries()) {
    const [, indent = '', info] = /^( *)```(.*)$/.exec(text) ?? [];
    if (info === undefined) open?.lines.push(text.slice(open.indent));
    else if (!open) open = { info: info.trim(), indent: indent.length, line: index + 1, lines: [] };
    else {
      const { line, lines } = open;
      const [language = '', mark, ...reason] = open.info.replace(':', ' :').split(/\s+/);
      const body = lines.join('\n');
      open = undefined;
      const at = `${file}:${line}`;
      if (language !== 'sh' && language !== 'bash') {
        if ((language === '' || language === 'shell' || language === 'console') && COMMANDS.test(body))
          faults.push(`${at}: commands, but not marked as sh`);
      } else if (mark === undefined) blocks.push({ file, line, text: body, mark: undefined });
      else if (!isMark(mark) || reason.length === 0)
        faults.push(`${at}: "${mark}" is none of ${Object.keys(MARKS).join(', ')}, followed by a reason`);
      else blocks.push({ file, line, text: body, mark });
    }
  }
  if (open) faults.push(`${file}:${open.line}: the block does not end`);
  return { blocks, faults };
}

function isMark(text: string): text is keyof typeof MARKS {
  return Object.hasOwn(MARKS, text);
}
