import {
  discardQuarantined,
  getQuarantined,
  listQuarantine,
  releaseQuarantined,
} from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { time } from '../session/output.ts';
import type { Cli } from '../session/session.ts';

export function quarantineCommand(cli: Cli): Command {
  const quarantine = new Command('quarantine').description('usage that the ledger could not record');
  addList(quarantine.command('list'), cli, listQuarantine, {
    description: 'list usage in quarantine, oldest first',
    query: { state: { text: 'its state', word: 'any', default: 'held' } },
    columns: [
      ['ID', (item) => item.id],
      ['RECEIVED', (item) => time(item.received_at)],
      ['KIND', (item) => item.kind],
      ['STATE', (item) => item.state],
      ['PRINCIPAL', (item) => item.principal_id],
      ['PROXY', (item) => item.epoch],
      ['REASON', (item) => item.reason],
    ],
  });
  addCall(quarantine.command('show <quarantine_id>'), cli, getQuarantined, {
    description: 'show one entry, with its message in base64',
  });
  addCall(quarantine.command('release <quarantine_id>'), cli, releaseQuarantined, {
    description: 'record it, if this release can read it',
  });
  addCall(quarantine.command('discard <quarantine_id>'), cli, discardQuarantined, {
    description: 'never record it; this is final',
    flags: { note: { text: 'the reason, which is recorded' } },
    examples: ['weighbridge quarantine discard 7 --note "sent by a load test"'],
  });
  return quarantine;
}
