<?php
// Names the tenant, the user and the client's request in each answer.
declare(strict_types=1);

const ROOT = __DIR__ . '/..';
define('TENANT', trim(file_get_contents(ROOT . '/tenant')));
define('NONCE', $_SERVER['HTTP_X_NONCE'] ?? '');

header('X-Tenant: ' . TENANT);
header('X-User: ' . posix_geteuid());
header('X-Echo: ' . NONCE);
header('Content-Type: text/plain');

function users(): PDO
{
    $users = new PDO('sqlite:' . ROOT . '/data/users.db');
    $users->setAttribute(PDO::ATTR_TIMEOUT, 10);
    return $users;
}

// Waits until the client has made a file of this name; says whether it has.
function told(string $name): bool
{
    $file = ROOT . '/go/' . basename($name);
    for ($tries = 0; $tries < 30_000; $tries++) {
        clearstatcache();
        if (file_exists($file)) {
            return true;
        }
        usleep(2_000);
    }
    return false;
}
