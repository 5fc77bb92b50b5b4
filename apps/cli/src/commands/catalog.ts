import { Command, Option } from 'commander';
import { makeChanges } from '../apply/applyPlan.ts';
import { listAll, reader } from '../apply/currentState.ts';
import type { ApplyFile, Json } from '../apply/desiredState.ts';
import { plan } from '../apply/plan.ts';
import { planSender } from '../apply/sendPlan.ts';
import { showPlan, summary } from '../apply/showPlan.ts';
import type { ImportResult } from '../catalog/importedModel.ts';
import { withKeptDimensions } from '../catalog/keptDimensions.ts';
import { readLiteLlm, readModelsDev } from '../catalog/readLists.ts';
import { collectList } from '../resources/parsers.ts';
import { printable } from '../session/output.ts';
import { type Cli, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { catalogFeedCommand } from './catalogFeed.ts';

const READERS: Readonly<Record<string, (content: unknown) => ImportResult>> = {
  litellm: readLiteLlm,
  'models.dev': readModelsDev,
};

const FETCH_TIMEOUT_MS = 60_000;
/** Ten times the size of the largest of these lists today. */
const MAX_LIST_CHARACTERS = 50_000_000;

export function catalogCommand(cli: Cli): Command {
  const catalog = new Command('catalog').description('prices and abilities of models');
  catalog
    .command('import <source>')
    .description("import prices and sizes from another project's list: a file, or an http(s) address")
    .addOption(
      new Option('--from <list>', 'the project that publishes the list')
        .choices(Object.keys(READERS))
        .makeOptionMandatory(),
    )
    .option(
      '--provider <provider>',
      'only models of these providers; default: the providers in the catalog',
      collectList,
    )
    .option('--force', 'also replace prices that an operator set')
    .option('--dry-run', 'show the changes without making them')
    .addHelpText(
      'after',
      '\nModels without a price per token are skipped. New prices apply to requests from now on. Prices that an operator set, by hand or by an import before, are kept without --force.\n\nExamples:\n  weighbridge catalog import --from models.dev https://models.dev/api.json --dry-run\n  weighbridge catalog import --from litellm prices.json --provider openai,mistral',
    )
    .action(async (source: string, options, command: Command) => {
      const content = parse(source, await read(cli, source));
      const { models, skipped } = (READERS[options.from] as (typeof READERS)[string])(content);
      const session = await openSession(cli, command);
      const known = await listAll(reader(session.client), '/api/v1/catalog/models');
      const providers: readonly unknown[] = options.provider ?? known.map(({ provider }) => provider);
      const kept: string[] = [];
      const wanted = models
        .filter(({ model }) => providers.includes(model.split('/')[0]))
        .map(({ capabilities, max_output_tokens, price: imported, ...facts }) => {
          // The catalog knows better what a model can do, and may know a limit that the list omits.
          const existing = known.find(({ model }) => model === facts.model);
          const isNew = existing === undefined;
          const current = (existing?.price as { price?: Json | null } | null | undefined)?.price ?? undefined;
          const price = withKeptDimensions(imported, current);
          const isOperators = (existing?.price as { origin?: unknown } | null)?.origin === 'operator';
          const isKept = isOperators && options.force !== true;
          if (isKept) kept.push(facts.model);
          const more = {
            ...((isNew || max_output_tokens !== null) && { max_output_tokens }),
            ...(isNew && { capabilities }),
          };
          return { fields: { ...facts, ...(!isKept && { price }), ...more } as Json, line: 0, file: source };
        });
      const file: ApplyFile = {
        profiles: [],
        policies: [],
        teams: [],
        principals: [],
        connectors: [],
        aliases: [],
        webhooks: [],
        keys: [],
        overrides: [],
        models: wanted,
      };
      const present = {
        profiles: [],
        policies: [],
        teams: [],
        principals: [],
        connectors: [],
        aliases: [],
        webhooks: [],
        keys: [],
        overrides: [],
        prices: {},
        models: known,
      };
      const changes = plan(file, present, []);

      if (!session.json) {
        if (changes.length > 0) session.out(showPlan(changes));
        if (kept.length > 0) {
          const examples = kept.slice(0, 3).map(printable).join(', ');
          session.err(
            `Kept, an operator set their prices (--force replaces them): ${kept.length} (${examples}${kept.length > 3 ? ', …' : ''})`,
          );
        }
        for (const [why, names] of Object.entries(skipped)) {
          const examples = names.slice(0, 3).map(printable).join(', ');
          session.err(`Skipped, ${why}: ${names.length} (${examples}${names.length > 3 ? ', …' : ''})`);
        }
      }
      if (!options.dryRun) await makeChanges(planSender(session.client), changes, async () => {});
      if (session.json) {
        const listed = changes.map(({ action, kind, name, fields }) => ({ action, kind, name, fields }));
        session.out(
          JSON.stringify({ dry_run: options.dryRun ?? false, changes: listed, skipped, kept }, null, 2),
        );
      } else session.out(`${summary(changes)}${changes.length > 0 && !options.dryRun ? ': done' : ''}`);
    });
  catalog.addCommand(catalogFeedCommand(cli));
  return catalog;
}

async function read(cli: Cli, source: string): Promise<string> {
  if (!/^https?:\/\//.test(source)) {
    try {
      return await cli.readFile(source);
    } catch (error) {
      throw new UsageError(`${source} can't be read: ${(error as Error).message}`);
    }
  }
  const response = await fetch(source, { signal: AbortSignal.timeout(FETCH_TIMEOUT_MS) }).catch((error) => {
    throw new Error(`${source} can't be fetched: ${(error as Error).message}`);
  });
  if (!response.ok) throw new Error(`${source} can't be fetched: it responded with ${response.status}.`);
  const text = await response.text();
  if (text.length <= MAX_LIST_CHARACTERS) return text;
  throw new Error(
    `${source} is larger than ${MAX_LIST_CHARACTERS} characters; no supported list is that large.`,
  );
}

function parse(source: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${source} is not JSON: ${(error as Error).message}`);
  }
}
