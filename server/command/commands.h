/* server/command/commands.h: the commands of the binary. Each gets its own arguments, argv[0] being its name, and returns the
 * exit status: 0 done, 1 failed, 2 wrong arguments. */
#ifndef CK_SERVER_COMMAND_COMMANDS_H
#define CK_SERVER_COMMAND_COMMANDS_H

#define CK_EXIT_USAGE 2

int ck_cmd_serve(int argc, char **argv);
int ck_cmd_convert(int argc, char **argv);
int ck_cmd_analyze(int argc, char **argv);
int ck_cmd_worker(int argc, char **argv); /* for the daemon, not for people */
int ck_cmd_version(int argc, char **argv);
int ck_cmd_healthcheck(int argc, char **argv);
int ck_cmd_key(int argc, char **argv);
int ck_cmd_tables(int argc, char **argv); /* for the documentation */

/* The members of "build" in /version and `ckptd version --json`: library versions and what is compiled in. Static
 * storage. */
const char *ck_build_json(void);

#endif
