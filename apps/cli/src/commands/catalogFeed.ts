import { bodyOf } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { price, time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

const STATES = ['held', 'applied', 'approved', 'rejected', 'withdrawn', 'any'];

/** `catalog feed`: the list of prices that the control plane reads daily. */
export function catalogFeedCommand(cli: Cli): Command {
  const feed = new Command('feed').description('the feed of prices that CATALOG_FEED_URL names');

  feed
    .command('show', { isDefault: true })
    .description('show how its last fetch went, and what it meant for the catalog')
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      session.showOne(await bodyOf(session.client.GET('/api/v1/catalog/feed')));
    });

  feed
    .command('refresh')
    .description('fetch it now, and apply it')
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      session.showOne(await bodyOf(session.client.POST('/api/v1/catalog/feed/refresh')));
    });

  listOptions(feed.command('changes'))
    .description('list the prices that it changed or wants to change, newest first')
    .addOption(new Option('--state <state>', 'their state').choices(STATES).default('held'))
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = options.state === 'any' ? {} : { state: options.state };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(
          session.client.GET('/api/v1/catalog/feed/changes', { params: { query: { ...filter, ...page } } }),
        ),
      );
      session.showList(items, [
        ['ID', ({ id }) => id],
        ['MODEL', ({ model }) => model],
        ['STATE', ({ state }) => state],
        ['INPUT', ({ price_before }) => (price_before ? price(price_before.input_price) : '')],
        ['NEW', ({ price_after }) => price(price_after.input_price)],
        ['OUTPUT', ({ price_before }) => (price_before ? price(price_before.output_price) : '')],
        ['NEW', ({ price_after }) => price(price_after.output_price)],
        ['CREATED', ({ created_at }) => time(created_at)],
        ['HELD BECAUSE', ({ held_because }) => held_because],
      ]);
    });

  feed
    .command('change <change_id>')
    .description('show one change, with all prices before and after')
    .action(async (change_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { change_id } };
      session.showOne(
        await bodyOf(session.client.GET('/api/v1/catalog/feed/changes/{change_id}', { params })),
      );
    });

  feed
    .command('approve <change_id>')
    .description('set the price of a held change, for requests from now on')
    .action(async (change_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { change_id } };
      session.showOne(
        await bodyOf(session.client.POST('/api/v1/catalog/feed/changes/{change_id}/approve', { params })),
      );
    });

  feed
    .command('reject <change_id>')
    .description('keep the price in force')
    .action(async (change_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { change_id } };
      session.showOne(
        await bodyOf(session.client.POST('/api/v1/catalog/feed/changes/{change_id}/reject', { params })),
      );
    });

  return feed;
}
