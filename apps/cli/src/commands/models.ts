import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { price } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

export function modelsCommand(cli: Cli): Command {
  return listOptions(new Command('models'))
    .description('models that the calling key can reach, with prices per one million tokens')
    .addHelpText('after', '\nExample:\n  weighbridge models --all --json')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/models', { params: { query: page } })),
      );
      session.showList(items, [
        ['MODEL', ({ model }) => model],
        ['INPUT', (model) => price(model.input_price)],
        ['CACHED', (model) => price(model.cache_read_price)],
        ['OUTPUT', (model) => price(model.output_price)],
        ['CONTEXT', (model) => model.context_window],
        ['PRICED', ({ priced_at }) => priced_at.slice(0, 10)],
        ['SCORE', (model) => model.benchmark_scores.avg_score],
      ]);
    });
}
