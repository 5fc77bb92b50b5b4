import type { components } from '@weighbridge/client';
import { usePolicyChoices } from '../api/choices.ts';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name, Time } from '../ui/bits.tsx';
import type { FieldSpec } from '../ui/fieldSpecs.ts';
import { Filters, TextField } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import type { Action } from '../ui/MoreMenu.tsx';
import { Page } from '../ui/Page.tsx';
import { ConfirmModal, EditModal, KEEP_OPEN, RowActions, SecretModal, useDialog } from '../ui/resources.tsx';
import { given, useSearch } from '../ui/search.ts';
import { List } from '../ui/Table.tsx';
import { IssueKey } from './IssueKey.tsx';
import { KeySpend } from './KeySpend.tsx';
import { PolicyName } from './PolicyName.tsx';
import { WhatIf } from './WhatIf.tsx';

type Key = components['schemas']['Key'];
interface KeyDialog {
  readonly of: Key;
  readonly onClose: () => void;
}
type ShowSecret = (secret: string) => void;

const YES_NO = [
  ['true', 'Yes'],
  ['false', 'No'],
] as const;

export function Keys() {
  const [search] = useSearch();
  const { dialog, open, close } = useDialog();
  const whoami = useWhoami();
  const mayWrite = whoami.scopes.includes('keys:write');
  const query = api.useQuery('get', '/api/v1/keys', {
    params: { query: given(search, ['name_contains', 'principal_id', 'page_token', 'revoked']) },
  });
  const showSecret = (secret: string) => open(<Secret secret={secret} onClose={close} />);
  const actions = (key: Key): Action[] => [
    ...(whoami.scopes.includes('usage:read')
      ? [{ label: 'Spend', run: () => open(<KeySpend of={key} onClose={close} />) }]
      : []),
    ...(isOperator(whoami) ? [{ label: 'What if', run: () => open(<Ask of={key} onClose={close} />) }] : []),
    ...(mayWrite
      ? [
          { label: 'Edit', run: () => open(<Edit of={key} onClose={close} />) },
          { label: 'Rotate', run: () => open(<Rotate of={key} onClose={close} onSecret={showSecret} />) },
          { label: 'Revoke', danger: true, run: () => open(<Revoke of={key} onClose={close} />) },
        ]
      : []),
  ];
  return (
    <Page
      title="Keys"
      lead="Clients authenticate with keys. A secret is shown once; only its hash is stored."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => open(<IssueKey onClose={close} onSecret={showSecret} />)}>
            Issue a key
          </Button>
        )
      }
    >
      <Filters
        filters={[
          { name: 'name_contains', label: 'Name contains' },
          { name: 'principal_id', label: 'Principal' },
          { name: 'revoked', label: 'Revoked', options: YES_NO },
        ]}
      />
      <List<Key>
        query={query}
        caption="Keys"
        rowKey={({ id }) => id}
        columns={[
          {
            title: 'Name',
            value: ({ name, key_hint }) => (
              <>
                <Name text={name} />
                <small>
                  <Code text={key_hint} />
                </small>
              </>
            ),
            wrap: true,
          },
          { title: 'State', value: (key) => <State of={key} /> },
          { title: 'Policy', value: ({ policy_id }) => <PolicyName id={policy_id} budget />, wrap: true },
          { title: 'Principal', value: ({ principal_id }) => <Name text={principal_id} />, wrap: true },
          { title: 'Scopes', value: ({ scopes }) => scopes.join(', '), wrap: true, spare: true },
          {
            title: 'Last used',
            value: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'never'),
          },
          {
            title: 'Actions',
            value: (key: Key) =>
              key.revoked_at === null && <RowActions of={key.name} actions={actions(key)} />,
            end: true,
          },
        ]}
        empty={<p>No key matches. Issue one for each application.</p>}
      />
      {dialog}
    </Page>
  );
}

function State({ of: { revoked_at, disabled, expires_at } }: { of: Key }) {
  if (revoked_at) return <Badge tone="bad">revoked</Badge>;
  if (disabled) return <Badge tone="warn">disabled</Badge>;
  if (expires_at === null) return <Badge tone="good">active</Badge>;
  const hasExpired = new Date(expires_at) < new Date();
  return (
    <>
      <Badge tone={hasExpired ? 'warn' : 'good'}>{hasExpired ? 'expired' : 'active'}</Badge>
      <small>
        {hasExpired ? 'since' : 'until'} <Time at={expires_at} />
      </small>
    </>
  );
}

const readKey = (id: string) => () =>
  client.GET('/api/v1/keys/{key_id}', { params: { path: { key_id: id } } });

function Rotate({ of: { id, name }, onClose, onSecret }: KeyDialog & { onSecret: ShowSecret }) {
  return (
    <ConfirmModal
      title={`Rotate ${name}`}
      submit="Rotate"
      id={id}
      act={async (_header, { hours = '24' }) => {
        const { data } = await client.POST('/api/v1/keys/{key_id}/rotate', {
          params: { path: { key_id: id } },
          body: { grace_seconds: Math.round(Number(hours) * 3_600) },
        });
        onSecret(data?.key ?? '');
        return KEEP_OPEN;
      }}
      onClose={onClose}
    >
      <TextField
        label="Hours that the old secret still works"
        name="hours"
        type="number"
        min={0}
        max={720}
        defaultValue={24}
        hint="0 ends it now. The key keeps its id, policy and spend."
      />
    </ConfirmModal>
  );
}

function Revoke({ of: { id, name }, onClose }: KeyDialog) {
  return (
    <ConfirmModal
      title={`Revoke ${name}`}
      submit="Revoke the key"
      danger
      id={id}
      read={readKey(id)}
      act={(header) => client.DELETE('/api/v1/keys/{key_id}', { params: { path: { key_id: id }, header } })}
      onClose={onClose}
    >
      <p>Every request with this key is refused from now on. This can’t be undone.</p>
    </ConfirmModal>
  );
}

const OWN_SPECS: readonly FieldSpec[] = [
  { name: 'name', label: 'Name', kind: 'text', required: true },
  { name: 'expires_at', label: 'Expires', kind: 'date', hint: 'At 00:00 UTC. Empty: never.' },
  { name: 'disabled', label: 'Disabled', kind: 'switch', hint: 'Its requests are refused meanwhile.' },
];

function Edit(dialog: KeyDialog) {
  return isOperator(useWhoami()) ? (
    <EditByOperator {...dialog} />
  ) : (
    <EditFields {...dialog} specs={OWN_SPECS} />
  );
}

/** Only an operator sees the policies to choose from. */
function EditByOperator(dialog: KeyDialog) {
  const choices = usePolicyChoices();
  const specs = choices && [
    ...OWN_SPECS,
    { name: 'policy_id', label: 'Policy', kind: 'choice', choices } as const,
  ];
  return <EditFields {...dialog} specs={specs} />;
}

function EditFields({
  of: { id, name },
  specs,
  onClose,
}: KeyDialog & { specs: readonly FieldSpec[] | undefined }) {
  return (
    <EditModal
      title={`Edit ${name}`}
      id={id}
      specs={specs}
      read={readKey(id)}
      save={(body, header) =>
        client.PATCH('/api/v1/keys/{key_id}', { params: { path: { key_id: id }, header }, body })
      }
      onClose={onClose}
    />
  );
}

function Ask({ of: { id, name }, onClose }: KeyDialog) {
  return (
    <Modal title={`Would a request with ${name} be allowed?`} onClose={onClose} wide>
      <WhatIf keyId={id} onClose={onClose} />
    </Modal>
  );
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <SecretModal title="Copy this key now" secret={secret} onClose={onClose}>
      <p>It is shown once. Whoever has it can spend.</p>
    </SecretModal>
  );
}
