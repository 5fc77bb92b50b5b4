import { listModels } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addList } from '../resources/calls.ts';
import { price } from '../session/output.ts';
import type { Cli } from '../session/session.ts';

export function modelsCommand(cli: Cli): Command {
  return addList(new Command('models'), cli, listModels, {
    description: 'models that the calling key can reach, with prices per one million tokens',
    examples: ['weighbridge models --all --json'],
    columns: [
      ['MODEL', ({ model }) => model],
      ['INPUT', (model) => price(model.input_price)],
      ['CACHED', (model) => price(model.cache_read_price)],
      ['OUTPUT', (model) => price(model.output_price)],
      ['CONTEXT', (model) => model.context_window],
      ['PRICED', ({ priced_at }) => priced_at.slice(0, 10)],
      ['SCORE', (model) => model.benchmark_scores.avg_score],
    ],
  });
}
