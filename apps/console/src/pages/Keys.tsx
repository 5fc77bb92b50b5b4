import { useQueryClient } from '@tanstack/react-query';
import type { components } from '@weighbridge/client';
import { useState } from 'react';
import { api, client } from '../api/client.ts';
import { isOperator, useWhoami } from '../app/session.ts';
import { Badge, Button, Code, Name, Time } from '../ui/bits.tsx';
import controls from '../ui/controls.module.css';
import { Filters, Form, SelectField, TextField } from '../ui/fields.tsx';
import { Modal } from '../ui/Modal.tsx';
import { Loaded, Page } from '../ui/Page.tsx';
import { useSearch } from '../ui/search.ts';
import { type Column, Pager, Table } from '../ui/Table.tsx';

type Key = components['schemas']['Key'];
type Change = { readonly what: 'issue' } | { readonly what: 'rotate' | 'revoke'; readonly key: Key };

const YES_NO = [
  ['true', 'Yes'],
  ['false', 'No'],
] as const;

export function Keys() {
  const [search] = useSearch();
  const [change, setChange] = useState<Change>();
  const whoami = useWhoami();
  const mayWrite = whoami.scopes.includes('keys:write');
  const { name_contains, principal_id, page_token } = search;
  const revoked = search.revoked === 'true' ? 'true' : search.revoked === 'false' ? 'false' : undefined;
  const given = { name_contains, principal_id, page_token, revoked };
  const query = api.useQuery('get', '/api/v1/keys', {
    params: { query: Object.fromEntries(Object.entries(given).filter(([, value]) => value)) },
  });
  return (
    <Page
      title="Keys"
      lead="What clients send. The secret is shown once; only its hash is stored."
      actions={
        mayWrite && (
          <Button kind="primary" onClick={() => setChange({ what: 'issue' })}>
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
      <Loaded query={query}>
        {({ data, next_page_token }) => (
          <>
            <Table
              caption="Keys"
              rows={data}
              columns={columns(mayWrite, setChange)}
              rowKey={({ id }) => id}
              empty={<p>No key matches. Issue one for each application.</p>}
            />
            <Pager next={next_page_token} />
          </>
        )}
      </Loaded>
      {change && <Dialog change={change} onClose={() => setChange(undefined)} />}
    </Page>
  );
}

function stateOf({ revoked_at, disabled, expires_at }: Key) {
  if (revoked_at) return <Badge tone="bad">revoked</Badge>;
  if (disabled) return <Badge tone="warn">disabled</Badge>;
  if (expires_at && new Date(expires_at) < new Date()) return <Badge tone="warn">expired</Badge>;
  return <Badge tone="good">active</Badge>;
}

function columns(mayWrite: boolean, start: (change: Change) => void): Column<Key>[] {
  const shown: Column<Key>[] = [
    { title: 'Name', value: ({ name }) => <Name text={name} />, wrap: true },
    { title: 'State', value: stateOf },
    { title: 'Key', value: ({ key_hint }) => <Code text={key_hint} /> },
    { title: 'Principal', value: ({ principal_id }) => <Name text={principal_id} /> },
    { title: 'Scopes', value: ({ scopes }) => scopes.join(', '), wrap: true },
    {
      title: 'Last used',
      value: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'never'),
    },
    { title: 'Expires', value: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : 'never') },
  ];
  if (!mayWrite) return shown;
  const actions = (key: Key) =>
    key.revoked_at === null && (
      <span className={controls.actions}>
        <Button small onClick={() => start({ what: 'rotate', key })}>
          Rotate
        </Button>
        <Button small kind="danger" onClick={() => start({ what: 'revoke', key })}>
          Revoke
        </Button>
      </span>
    );
  return [...shown, { title: 'Change', value: actions, end: true }];
}

function Dialog({ change, onClose }: { change: Change; onClose: () => void }) {
  const queries = useQueryClient();
  const [secret, setSecret] = useState<string>();
  const reload = () => queries.invalidateQueries({ queryKey: ['get', '/api/v1/keys'] });
  if (secret !== undefined) return <Secret secret={secret} onClose={onClose} />;
  if (change.what === 'issue') {
    return <Issue onClose={onClose} onIssued={(key) => void reload().then(() => setSecret(key))} />;
  }
  const { key } = change;
  const path = { key_id: key.id };
  if (change.what === 'rotate') {
    const rotate = async ({ hours = '24' }: Readonly<Record<string, string>>) => {
      const { data } = await client.POST('/api/v1/keys/{key_id}/rotate', {
        params: { path },
        body: { grace_seconds: Math.round(Number(hours) * 3_600) },
      });
      await reload();
      setSecret(data?.key);
    };
    return (
      <Modal title={`Rotate ${key.name}`} onClose={onClose}>
        <Form submit="Rotate" onSubmit={rotate} onCancel={onClose}>
          <TextField
            label="Hours that the old secret still works"
            name="hours"
            type="number"
            min={0}
            max={720}
            defaultValue={24}
            hint="0 ends it now. The key keeps its id, policy and spend."
          />
        </Form>
      </Modal>
    );
  }
  const revoke = async () => {
    await client.DELETE('/api/v1/keys/{key_id}', { params: { path } });
    await reload();
    onClose();
  };
  return (
    <Modal title={`Revoke ${key.name}`} onClose={onClose}>
      <p>Every request with this key is refused from now on. This can’t be undone.</p>
      <Form submit="Revoke the key" danger onSubmit={revoke} onCancel={onClose} />
    </Modal>
  );
}

const KINDS = {
  inference: ['inference', 'models:read', 'usage:read'],
  self: ['inference', 'models:read', 'usage:read', 'keys:read', 'keys:write'],
  operator: ['inference', 'models:read', 'usage:read', 'keys:read', 'keys:write', 'admin:read', 'operator'],
} as const;

function Issue({ onClose, onIssued }: { onClose: () => void; onIssued: (key: string) => void }) {
  const whoami = useWhoami();
  const issue = async (values: Readonly<Record<string, string>>) => {
    const { name = '', principal_id, expires, use = 'inference' } = values;
    const allowed = KINDS[use as keyof typeof KINDS].filter((scope) => whoami.scopes.includes(scope));
    const { data } = await client.POST('/api/v1/keys', {
      body: {
        name,
        scopes: [...allowed],
        ...(principal_id && { principal_id }),
        ...(expires && { expires_at: new Date(`${expires}T00:00:00Z`).toISOString() }),
      },
    });
    if (data) onIssued(data.key);
  };
  const uses = [
    ['inference', 'An application: ask models, read its own usage'],
    ['self', 'A person: also see and issue own keys'],
    ...(isOperator(whoami) ? [['operator', 'An operator: everything'] as const] : []),
  ] as const;
  return (
    <Modal title="Issue a key" onClose={onClose}>
      <Form submit="Issue" onSubmit={issue} onCancel={onClose}>
        <TextField
          label="Name"
          name="name"
          required
          maxLength={200}
          hint="What uses it, such as an application."
        />
        {isOperator(whoami) && (
          <TextField label="Principal" name="principal_id" placeholder={whoami.principal_id} />
        )}
        <SelectField label="For" name="use" options={uses} />
        <TextField label="Expires" name="expires" type="date" hint="Empty: never." />
      </Form>
    </Modal>
  );
}

function Secret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Modal title="Copy this key now" onClose={onClose}>
      <p>It is shown once. Whoever has it can spend.</p>
      <code className={controls.secret}>{secret}</code>
      <div className={controls.actions}>
        <Button onClick={() => void navigator.clipboard.writeText(secret)}>Copy</Button>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Modal>
  );
}
