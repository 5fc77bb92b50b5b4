import { useQuery, useQueryClient } from '@tanstack/react-query';
import { ApiError } from '@weighbridge/client';
import { type ReactNode, useState } from 'react';
import { api } from '../api/client.ts';
import { Actions, Button, Code, CopyButton, Name, Time } from './bits.tsx';
import controls from './controls.module.css';
import { changedValues, enteredValues, type FieldSpec, KINDS, valueAt } from './fieldSpecs.ts';
import { Form, SpecFields, type Texts } from './fields.tsx';
import { Modal } from './Modal.tsx';
import { type Action, MoreMenu } from './MoreMenu.tsx';
import { Loaded, Pairs } from './Page.tsx';
import { visible } from './text.ts';

type Values = Readonly<Record<string, unknown>>;

/** Asks for a resource as it is now. */
export type Read = () => Promise<{ readonly data?: object; readonly response: Response }>;
/** The headers by which a change is refused if the resource is not what was read. */
export interface IfMatch {
  readonly 'if-match'?: string;
}

interface Opened {
  readonly value: Values;
  readonly header: IfMatch;
}

/** A resource as it was when a dialog opened. It stays so, whatever else the page asks for meanwhile. */
function useOpened(id: string, read: Read) {
  return useQuery<Opened>({
    queryKey: ['opened', id],
    queryFn: async () => {
      const { data, response } = await read();
      const etag = response.headers.get('etag');
      return { value: data as Values, header: etag === null ? {} : { 'if-match': etag } };
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}

/** Asks again for everything that the page shows. */
export function useReload(): () => Promise<void> {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] === 'get' });
}

/** What a change returns that showed another dialog in place of its own. */
export const KEEP_OPEN = Symbol('keep open');

/** Makes a resource. `create` gets what was entered. */
export function CreateModal({
  title,
  submit: label = 'Create',
  specs,
  create,
  onClose,
  children,
}: {
  title: string;
  submit?: string;
  specs: readonly FieldSpec[] | undefined;
  create: (values: Values) => Promise<unknown>;
  onClose: () => void;
  children?: ReactNode;
}) {
  const reload = useReload();
  const submit = async (texts: Texts) => {
    const shown = await create(enteredValues(specs ?? [], texts));
    await reload();
    if (shown !== KEEP_OPEN) onClose();
  };
  return (
    <Modal title={title} onClose={onClose}>
      <Loaded query={{ data: specs, error: null, refetch: reload as never }}>
        {(loaded) => (
          <Form submit={label} onSubmit={submit} onCancel={onClose}>
            <SpecFields specs={loaded} />
            {children}
          </Form>
        )}
      </Loaded>
    </Modal>
  );
}

/** Changes a resource. `save` gets only the fields that were changed, and the headers that protect others' changes. */
export function EditModal({
  title,
  id,
  specs,
  read,
  save,
  onClose,
}: {
  title: string;
  id: string;
  specs: readonly FieldSpec[] | undefined;
  read: Read;
  save: (changes: Values, header: IfMatch) => Promise<unknown>;
  onClose: () => void;
}) {
  const reload = useReload();
  const opened = useOpened(id, read);
  const [lost, setLost] = useState<Values>();
  const submit = async (loaded: Opened, shown: readonly FieldSpec[], texts: Texts) => {
    const changes = changedValues(shown, loaded.value, texts);
    try {
      if (Object.keys(changes).length > 0) await save(changes, loaded.header);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 412)) throw error;
      setLost((error.details.current ?? {}) as Values);
      return;
    }
    await reload();
    onClose();
  };
  const startAgain = async () => {
    await Promise.all([opened.refetch(), reload()]);
    setLost(undefined);
  };
  const data = specs && opened.data && { specs, opened: opened.data };
  return (
    <Modal title={title} onClose={onClose}>
      <Loaded query={{ data, error: opened.error, refetch: opened.refetch as never }}>
        {({ specs: shown, opened: loaded }) =>
          lost ? (
            <Conflict id={id} specs={shown} before={loaded.value} now={lost} onReload={startAgain} />
          ) : (
            <Form submit="Save" onSubmit={(texts) => submit(loaded, shown, texts)} onCancel={onClose}>
              <SpecFields specs={shown} value={loaded.value} />
            </Form>
          )
        }
      </Loaded>
    </Modal>
  );
}

/** Someone else was faster: who, and what is different now. */
function Conflict({
  id,
  specs,
  before,
  now,
  onReload,
}: {
  id: string;
  specs: readonly FieldSpec[];
  before: Values;
  now: Values;
  onReload: () => Promise<void>;
}) {
  const audit = api.useQuery('get', '/api/v1/audit', {
    params: { query: { resource_id: id, page_size: 1 } },
  });
  const last = audit.data?.data[0];
  const show = ({ name, kind }: FieldSpec, values: Values) =>
    KINDS[kind].show(valueAt(values, name)) || 'nothing';
  const different = specs.filter((spec) => show(spec, before) !== show(spec, now));
  return (
    <div role="alert" className={controls.form}>
      <p>
        Someone else changed this since you opened it. Your change was not saved.
        {last && (
          <>
            {' The last change is of '}
            <Name text={last.actor_principal_id} />, <Time at={last.at} />.
          </>
        )}
      </p>
      <Pairs
        of={different.map((spec) => [
          spec.label,
          <span key={spec.name}>
            <Code text={show(spec, before)} /> is now <Code text={show(spec, now)} />
          </span>,
        ])}
      />
      <Actions>
        <Button kind="primary" onClick={() => void onReload()}>
          Load what it is now
        </Button>
      </Actions>
    </div>
  );
}

/** Asks before it does something. With `read`, it is done only to what the resource was when the dialog opened. */
export function ConfirmModal({
  title,
  submit,
  danger = false,
  id = '',
  read,
  act,
  onClose,
  children,
}: {
  title: string;
  submit: string;
  danger?: boolean;
  id?: string;
  read?: Read;
  act: (header: IfMatch, texts: Texts) => Promise<unknown>;
  onClose: () => void;
  children?: ReactNode;
}) {
  const reload = useReload();
  const nothing: Read = async () => ({ data: {}, response: new Response() });
  const opened = useOpened(`${submit} ${title} ${id}`, read ?? nothing);
  const done = async (header: IfMatch, texts: Texts) => {
    const shown = await act(header, texts);
    await reload();
    if (shown !== KEEP_OPEN) onClose();
  };
  return (
    <Modal title={title} onClose={onClose}>
      <Loaded query={opened}>
        {({ header }) => (
          <Form submit={submit} danger={danger} onSubmit={(texts) => done(header, texts)} onCancel={onClose}>
            {children}
          </Form>
        )}
      </Loaded>
    </Modal>
  );
}

/** A secret that the service shows once. */
export function SecretModal({
  title,
  secret,
  onClose,
  children,
}: {
  title: string;
  secret: string;
  onClose: () => void;
  children: ReactNode;
}) {
  return (
    <Modal title={title} onClose={onClose}>
      {children}
      <code className={controls.secret}>{secret}</code>
      <Actions>
        <CopyButton text={secret} />
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </Actions>
    </Modal>
  );
}

/** So many are buttons side by side; of more, all but the first are in a menu. */
const MOST_BUTTONS = 2;

/** What one can do with a row. */
export function RowActions({ of, actions }: { of: string; actions: readonly Action[] }) {
  const shown = actions.length > MOST_BUTTONS ? 1 : MOST_BUTTONS;
  const more = actions.slice(shown);
  return (
    <span className={controls.rowActions}>
      {actions.slice(0, shown).map(({ label, danger, run }) => (
        <Button
          key={label}
          small
          kind={danger ? 'danger' : 'plain'}
          aria-label={`${label} ${visible(of)}`}
          onClick={run}
        >
          {label}
        </Button>
      ))}
      {more.length > 0 && <MoreMenu label={`More actions for ${visible(of)}`} actions={more} />}
    </span>
  );
}

/** The dialog that is open, if any. */
export function useDialog() {
  const [dialog, setDialog] = useState<ReactNode>();
  return { dialog, open: setDialog, close: () => setDialog(undefined) } as const;
}
