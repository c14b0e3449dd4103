"""The script that creates the service's role: it reads and writes rows, and owns nothing."""

from __future__ import annotations

from string import Template

SCHEMA = "nodius"
_SCRIPT = Template("""\
-- Creates the role of the service in database $database. The role that ran `nodius db init` owns the
-- tables; this one can read and write rows, but cannot create, change or remove tables, and row-level
-- security holds for it.
--
-- After `nodius db init`, run it in psql as a role that may create roles and grant on the schema. It
-- can be repeated:
--   psql --dbname=$database --file=THIS_FILE
\\set ON_ERROR_STOP on
BEGIN;
SELECT 'CREATE ROLE $quoted_role LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION'
 WHERE to_regrole('$quoted_role') IS NULL \\gexec
GRANT CONNECT ON DATABASE $database TO $role;
GRANT USAGE ON SCHEMA $schema TO $role;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA $schema TO $role;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA $schema TO $role;
-- The same for the tables that the owner of the schema creates in `nodius db upgrade`.
SELECT format('ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA $schema %s', nspowner::regrole, given)
  FROM pg_namespace,
       unnest(ARRAY['GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO $quoted_role',
                    'GRANT USAGE ON SEQUENCES TO $quoted_role']) AS given
 WHERE nspname = '$schema' \\gexec
COMMIT;
-- Asks for the password, which is sent as a hash and stays out of the server's log.
\\password $role
""")


def role_script(*, role: str, database: str) -> str:
    """Returns a script for psql that creates the role of the service in a database."""
    quoted = _quoted(role)
    return _SCRIPT.substitute(
        role=quoted,
        quoted_role=quoted.replace("'", "''"),
        database=_quoted(database),
        schema=SCHEMA,
    )


def _quoted(name: str) -> str:
    """Returns a name as an SQL identifier. Raises: ValueError for a name that cannot be one."""
    if not name or "\0" in name or "\n" in name:
        raise ValueError(f"{name!r} cannot be a name")
    return '"' + name.replace('"', '""') + '"'
