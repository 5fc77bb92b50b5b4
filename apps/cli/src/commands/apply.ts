import { allItems, bodyOf, type Client, type PageOf } from '@weighbridge/client';
import { Command, InvalidArgumentError } from 'commander';
import type { CurrentState } from '../apply/changes.ts';
import type { ApplyFile, Json } from '../apply/desiredState.ts';
import { plan } from '../apply/plan.ts';
import { PRUNABLE, type Prunable } from '../apply/prune.ts';
import { runPlan, type Send } from '../apply/runPlan.ts';
import { showPlan, summary } from '../apply/showPlan.ts';
import { type Cli, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { collectList } from './options.ts';

export function applyCommand(cli: Cli): Command {
  return new Command('apply')
    .description('make policies, principals, profiles, aliases, connectors and the catalog match a YAML file')
    .requiredOption('-f, --file <file>', 'the YAML file')
    .option('--dry-run', 'show the changes without making them')
    .option(
      '--prune <kinds>',
      `delete what the file does not name, of these kinds: ${PRUNABLE.join(', ')}`,
      kinds,
    )
    .addHelpText(
      'after',
      '\nThe whole file is checked before the service is contacted.\n\nExamples:\n  weighbridge apply -f gateway.yaml --dry-run\n  weighbridge apply -f gateway.yaml --prune policies,profiles',
    )
    .action(async (options, command: Command) => {
      const text = await readText(cli, options.file);
      // Loaded only here, so that the other commands start faster.
      const { readApplyFile } = await import('../apply/applyFile.ts');
      const { loadServiceRules } = await import('../apply/serviceRules.ts');
      const { published, rule } = await loadServiceRules();
      const file = readApplyFile(options.file, text, published, rule);
      const session = await openSession(cli, command);
      const prune: Prunable[] = options.prune ?? [];
      const changes = plan(
        file,
        await readCurrentState(session.client, file, prune),
        prune,
        options.file,
        rule,
      );

      if (!session.json && changes.length > 0) session.out(showPlan(changes));
      if (!options.dryRun) {
        let done = 0;
        try {
          await runPlan(changes, sender(session.client), () => done++);
        } catch (error) {
          const next = changes[done];
          session.err(`Stopped at ${next?.kind} ${next?.name}; made ${done} of ${changes.length} changes.`);
          throw error;
        }
      }
      if (session.json) {
        const listed = changes.map(({ action, kind, name, fields }) => ({ action, kind, name, fields }));
        session.out(JSON.stringify({ dry_run: options.dryRun ?? false, changes: listed }, null, 2));
      } else session.out(`${summary(changes)}${changes.length > 0 && !options.dryRun ? ': done' : ''}`);
    });
}

function kinds(text: string, before: readonly Prunable[] | undefined): Prunable[] {
  const given = collectList(text, before);
  const unknown = given.find((kind) => !PRUNABLE.some((known) => known === kind));
  if (unknown === undefined && given.length > 0) return given as Prunable[];
  throw new InvalidArgumentError(`Name one or more of ${PRUNABLE.join(', ')}.`);
}

async function readText(cli: Cli, file: string): Promise<string> {
  try {
    return await cli.readFile(file);
  } catch (error) {
    throw new UsageError(`${file} can't be read: ${(error as Error).message}`);
  }
}

/** Reads only the sections that the file or `--prune` names. */
async function readCurrentState(
  client: Client,
  file: ApplyFile,
  prune: readonly Prunable[],
): Promise<CurrentState> {
  const send = sender(client);
  const list = (path: string, wanted: boolean) => (wanted ? listAll(send, path) : []);
  const uses = (section: keyof ApplyFile & Prunable) => file[section].length > 0 || prune.includes(section);
  const connectors = await list('/api/v1/connectors', uses('connectors') || prune.includes('prices'));
  const priced = connectors.filter(({ name }) => file.connectors.some(({ fields }) => fields.name === name));
  const prices: Record<string, Json[]> = {};
  for (const { id } of priced) {
    prices[String(id)] = await list(`/api/v1/connectors/${String(id)}/prices`, true);
  }
  return {
    profiles: await list('/api/v1/profiles', uses('profiles') || uses('policies')),
    policies: await list(
      '/api/v1/policies',
      uses('policies') || uses('aliases') || file.principals.length > 0,
    ),
    principals: await list('/api/v1/principals', file.principals.length > 0),
    models: await list('/api/v1/catalog/models', uses('models')),
    connectors,
    aliases: await list('/api/v1/aliases', uses('aliases')),
    prices,
  };
}

/** All items of a list, over all its pages. */
export async function listAll(send: Send, path: string): Promise<Json[]> {
  return await allItems(async (token) => {
    const page = await send('GET', `${path}?page_size=500&page_token=${encodeURIComponent(token)}`);
    return page as unknown as PageOf<Json>;
  });
}

/** Sends calls that the plan built at run time: types don't check their paths and bodies, the plan and the service do. */
export function sender(client: Client): Send {
  return async (method, path, body) => {
    const call = client.request(method.toLowerCase() as 'get', path as never, { body } as never);
    return await bodyOf<Json>(call as Promise<{ data?: Json; response: Response }>);
  };
}
