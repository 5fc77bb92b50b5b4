import { ApiError } from '@weighbridge/client';
import {
  createContext,
  type FormEvent,
  type InputHTMLAttributes,
  type ReactNode,
  useContext,
  useId,
  useState,
} from 'react';
import { Actions, Button } from './bits.tsx';
import styles from './controls.module.css';
import { type Choices, controlOf, type FieldSpec, KINDS, valueAt } from './fieldSpecs.ts';
import { Problem } from './Page.tsx';
import pageStyles from './page.module.css';
import { type Search, useSearch } from './search.ts';
import { visible } from './text.ts';

interface FieldProblem {
  readonly name: string;
  readonly message: string;
}

const FieldProblemContext = createContext<FieldProblem | undefined>(undefined);

interface ControlProps {
  readonly id: string;
  readonly name: string;
  readonly className: string | undefined;
  readonly 'aria-invalid': true | undefined;
  readonly 'aria-describedby': string;
}

/** A control with its label, a hint, and what the service found wrong with it. */
function Field({
  label,
  name,
  hint,
  wide = false,
  children,
}: {
  label: string;
  name: string;
  hint?: string | undefined;
  wide?: boolean;
  children: (control: ControlProps) => ReactNode;
}) {
  const id = useId();
  const problem = useContext(FieldProblemContext);
  const isWrong = problem?.name === name;
  return (
    <div className={`${styles.field} ${wide ? styles.wide : ''}`}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        name,
        className: styles.input,
        'aria-invalid': isWrong || undefined,
        'aria-describedby': `${id}-hint ${id}-problem`,
      })}
      {hint !== undefined && <small id={`${id}-hint`}>{hint}</small>}
      {isWrong && (
        <small id={`${id}-problem`} role="alert">
          {visible(problem.message)}
        </small>
      )}
    </div>
  );
}

type InputProps = Omit<InputHTMLAttributes<HTMLInputElement>, 'className'>;

export function TextField({
  label,
  name,
  hint,
  ...input
}: InputProps & { label: string; name: string; hint?: string | undefined }) {
  return (
    <Field label={label} name={name} hint={hint}>
      {(control) => <input {...input} {...control} />}
    </Field>
  );
}

/** Several lines of text. */
export function AreaField({
  label,
  name,
  hint,
  initial,
  required = false,
}: {
  label: string;
  name: string;
  hint?: string | undefined;
  initial?: string;
  required?: boolean;
}) {
  return (
    <Field label={label} name={name} hint={hint} wide>
      {(control) => <textarea {...control} defaultValue={initial} required={required} spellCheck={false} />}
    </Field>
  );
}

export function SelectField({
  label,
  name,
  hint,
  options,
  value,
  initial,
  onChange,
}: {
  label: string;
  name: string;
  hint?: string | undefined;
  options: Choices;
  value?: string;
  initial?: string;
  onChange?: (value: string) => void;
}) {
  const change = onChange
    ? { value, onChange: (event: { target: { value: string } }) => onChange(event.target.value) }
    : { defaultValue: initial };
  return (
    <Field label={label} name={name} hint={hint}>
      {(control) => (
        <select {...control} {...change}>
          {options.map(([one, text]) => (
            <option key={one} value={one}>
              {visible(text)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** A choice that the address keeps. */
export function SearchSelect({
  label,
  name,
  options,
  value,
}: {
  label: string;
  name: string;
  options: Choices;
  value: string;
}) {
  const [, setSearch] = useSearch();
  return (
    <SelectField
      label={label}
      name={name}
      options={options}
      value={value}
      onChange={(chosen) => setSearch({ [name]: chosen })}
    />
  );
}

/** The controls of a resource's fields; `value` is its present state. */
export function SpecFields({
  specs,
  value,
}: {
  specs: readonly FieldSpec[];
  value?: Readonly<Record<string, unknown>> | undefined;
}) {
  return (
    <div className={styles.pairOfFields}>
      {specs.map((spec) => (
        <SpecField
          key={spec.name}
          spec={spec}
          initial={value ? KINDS[spec.kind].show(valueAt(value, spec.name)) : (spec.initial ?? '')}
        />
      ))}
    </div>
  );
}

function SpecField({ spec, initial }: { spec: FieldSpec; initial: string }) {
  const { name, label, kind, hint, required = false, choices = [] } = spec;
  const common = { name, label, hint };
  if (kind === 'switch') return <CheckField {...common} initial={initial === 'on'} />;
  if (kind === 'choice') {
    const isListed = choices.some(([one]) => one === initial);
    // A list may be longer than what was asked of it.
    return (
      <SelectField
        {...common}
        options={isListed ? choices : [...choices, [initial, initial]]}
        initial={initial}
      />
    );
  }
  if (kind === 'lines' || kind === 'numbers' || kind === 'targets' || kind === 'pairs') {
    return <AreaField {...common} initial={initial} required={required} />;
  }
  const input = { ...common, defaultValue: initial, required };
  if (kind === 'text') return <TextField {...input} autoComplete="off" />;
  if (kind === 'secret') return <TextField {...input} type="password" autoComplete="off" />;
  if (kind === 'date') return <TextField {...input} type="date" />;
  return <TextField {...input} type="number" min={0} step={kind === 'usd' ? 0.000_001 : 'any'} />;
}

function CheckField({
  label,
  name,
  hint,
  initial,
}: {
  label: string;
  name: string;
  hint?: string | undefined;
  initial: boolean;
}) {
  const id = useId();
  return (
    <div className={`${styles.field} ${styles.wide}`}>
      <span className={styles.check}>
        <input id={id} type="checkbox" name={name} defaultChecked={initial} />
        <label htmlFor={id}>{label}</label>
      </span>
      {hint !== undefined && <small>{hint}</small>}
    </div>
  );
}

export type Texts = Readonly<Record<string, string>>;

/** A form that says what failed, at the field if one is to blame, and can't be sent twice. */
export function Form({
  submit,
  onSubmit,
  onCancel,
  cancel = 'Cancel',
  danger = false,
  children,
}: {
  submit: string;
  onSubmit: (texts: Texts) => Promise<void>;
  onCancel?: () => void;
  cancel?: string;
  danger?: boolean;
  children?: ReactNode;
}) {
  const [error, setError] = useState<unknown>();
  const [problem, setProblem] = useState<FieldProblem>();
  const [isSending, setSending] = useState(false);
  const fail = (failure: unknown, form: HTMLFormElement) => {
    const names = [...new FormData(form).keys()];
    const name = failure instanceof ApiError ? controlOf(failure.param, names) : undefined;
    if (name === undefined || !(failure instanceof ApiError)) {
      setError(failure);
      return;
    }
    setProblem({ name, message: failure.message });
    const control = form.elements.namedItem(name);
    if (control instanceof HTMLElement) control.focus();
  };
  const send = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const texts = Object.fromEntries(new FormData(form)) as Texts;
    setSending(true);
    setError(undefined);
    setProblem(undefined);
    try {
      await onSubmit(texts);
    } catch (failure) {
      fail(failure, form);
    } finally {
      setSending(false);
    }
  };
  return (
    <form className={styles.form} onSubmit={(event) => void send(event)}>
      <FieldProblemContext value={problem}>{children}</FieldProblemContext>
      {error !== undefined && <Problem error={error} />}
      <Actions>
        {onCancel && <Button onClick={onCancel}>{cancel}</Button>}
        <Button type="submit" kind={danger ? 'danger' : 'primary'} disabled={isSending}>
          {submit}
        </Button>
      </Actions>
    </form>
  );
}

export interface Filter {
  readonly name: string;
  readonly label: string;
  /** Undefined: any text. */
  readonly options?: Choices;
  /** An example of the text. */
  readonly hint?: string;
  /** What holds without a choice. */
  readonly any?: string;
}

/** The filters of a list, kept in the address; `more` are shown when one asks for them, or when one of them is on. */
export function Filters({ filters, more = [] }: { filters: readonly Filter[]; more?: readonly Filter[] }) {
  const [search, setSearch] = useSearch();
  const apply = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setSearch(Object.fromEntries(new FormData(event.currentTarget)) as Search);
  };
  const on = more.filter(({ name }) => search[name]).length;
  return (
    <form aria-label="Filters" onSubmit={apply}>
      <div className={pageStyles.filters}>
        <FilterControls filters={filters} />
        {[...filters, ...more].some(({ options }) => !options) && <Button type="submit">Filter</Button>}
      </div>
      {more.length > 0 && (
        <details className={pageStyles.more} open={on > 0}>
          <summary>{on > 0 ? `More filters (${on})` : 'More filters'}</summary>
          <div className={pageStyles.filters}>
            <FilterControls filters={more} />
          </div>
        </details>
      )}
    </form>
  );
}

function FilterControls({ filters }: { filters: readonly Filter[] }) {
  const [search] = useSearch();
  return filters.map(({ name, label, options, hint, any = 'Any' }) =>
    options ? (
      <SearchSelect
        key={name}
        name={name}
        label={label}
        options={[['', any], ...options]}
        value={search[name] ?? ''}
      />
    ) : (
      <TextField
        key={`${name} ${search[name]}`}
        name={name}
        label={label}
        defaultValue={search[name]}
        placeholder={hint}
      />
    ),
  );
}
