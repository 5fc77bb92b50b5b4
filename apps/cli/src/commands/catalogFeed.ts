import {
  approveFeedChange,
  getCatalogFeed,
  getFeedChange,
  listFeedChanges,
  refreshCatalogFeed,
  rejectFeedChange,
} from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { price, time } from '../session/output.ts';
import type { Cli } from '../session/session.ts';

/** `catalog feed`: the list of prices that the control plane reads daily. */
export function catalogFeedCommand(cli: Cli): Command {
  const feed = new Command('feed').description('the feed of prices that CATALOG_FEED_URL names');
  addCall(feed.command('show', { isDefault: true }), cli, getCatalogFeed, {
    description: 'show how its last fetch went, and what it meant for the catalog',
  });
  addCall(feed.command('refresh'), cli, refreshCatalogFeed, { description: 'fetch it now, and apply it' });
  addList(feed.command('changes'), cli, listFeedChanges, {
    description: 'list the prices that it changed or wants to change, newest first',
    query: { state: { text: 'their state', word: 'any', default: 'held' } },
    columns: [
      ['ID', ({ id }) => id],
      ['MODEL', ({ model }) => model],
      ['STATE', ({ state }) => state],
      ['INPUT', ({ price_before }) => (price_before ? price(price_before.input_price) : '')],
      ['NEW', ({ price_after }) => price(price_after.input_price)],
      ['OUTPUT', ({ price_before }) => (price_before ? price(price_before.output_price) : '')],
      ['NEW', ({ price_after }) => price(price_after.output_price)],
      ['CREATED', ({ created_at }) => time(created_at)],
      ['HELD BECAUSE', ({ held_because }) => held_because],
    ],
  });
  addCall(feed.command('change <change_id>'), cli, getFeedChange, {
    description: 'show one change, with all prices before and after',
  });
  addCall(feed.command('approve <change_id>'), cli, approveFeedChange, {
    description: 'set the price of a held change, for requests from now on',
  });
  addCall(feed.command('reject <change_id>'), cli, rejectFeedChange, {
    description: 'keep the price in force',
  });
  return feed;
}
