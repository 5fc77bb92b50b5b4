import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { type Cli, openSession } from '../session/session.ts';
import { parseSignedMicroUsd } from './options.ts';

export function requestsCommand(cli: Cli): Command {
  const requests = new Command('requests').description('single requests in the ledger');

  requests
    .command('show <request_id>')
    .description('show a request with its attempts and corrections')
    .action(async (request_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { request_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/requests/{request_id}', { params })));
    });

  requests
    .command('correct <request_id>')
    .description('add a signed correction to the cost of a request; entries are never edited')
    .requiredOption(
      '--amount-usd <amount>',
      'the amount to add to the spend, such as 0.25, or -0.25 to give back',
      parseSignedMicroUsd,
    )
    .requiredOption('--reason <text>', 'the reason, which is recorded')
    .option('--event <event_id>', "the attempt to correct; default: the request's first")
    .option('--idempotency-key <text>', 'the same key again within 24 hours adds nothing')
    .addHelpText(
      'after',
      '\nExample:\n  weighbridge requests correct req_… --amount-usd -0.25 --reason "not on the vendor\'s invoice"',
    )
    .action(async (request_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const params = {
        path: { request_id },
        ...(options.idempotencyKey && { header: { 'idempotency-key': options.idempotencyKey } }),
      };
      const body = {
        amount_micro_usd: options.amountUsd,
        reason: options.reason,
        ...(options.event && { event_id: options.event }),
      };
      session.showOne(
        await bodyOf(session.client.POST('/api/v1/requests/{request_id}/corrections', { params, body })),
      );
    });

  return requests;
}
